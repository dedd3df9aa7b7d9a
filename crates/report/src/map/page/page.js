// Shows the map that stands in the page. Everything that comes from the data is put on the screen as text, never as markup.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const MOST = 400, DENSE = 24, MOST_IN_GRAPH = 60;
const OUTSIDE = -1, CONTROLLER = -2;
const $ = id => document.getElementById(id);

// ---------------------------------------------------------------- what the data say

const decoded = new Map();
const controller = new Map(data.controller);

function row(source) {
  const number = data.rowOf[source];
  if (!decoded.has(number)) {
    const cells = new Uint32Array(data.workloads.length);
    const runs = data.rows[number];
    for (let at = 0, i = 0; i < runs.length; i += 2) {
      cells.fill(runs[i + 1], at, at + runs[i]);
      at += runs[i];
    }
    decoded.set(number, cells);
  }
  return decoded.get(number);
}

// What stands between two ends: [addresses, cell] pairs; addresses are 0 where the outside is no end.
function entries(from, to) {
  if (from === OUTSIDE) return to >= 0 ? data.outsides[data.inOf[to]] : [];
  if (to === OUTSIDE) return from >= 0 ? data.outsides[data.outOf[from]] : [];
  const cell = from === CONTROLLER ? controller.get(to) || 0 : from === to ? data.own[from] : row(from)[to];
  return cell ? [[0, cell]] : [];
}

function name(end) {
  if (end === OUTSIDE) return 'outside';
  if (end === CONTROLLER) return 'ingress controller';
  const [namespace, own] = data.workloads[end];
  return data.namespaces[namespace] + '/' + own;
}

function traffic(cell) {
  const [allowed, other, uniform] = data.cells[cell];
  let text = data.traffics[allowed].text;
  if (other) text += '; over the other address family ' + data.traffics[other].text;
  return uniform ? text : text + ' (some pods)';
}

// ---------------------------------------------------------------- what is asked for

const wanted = { search: '', namespace: '', port: null, neighbours: true, connected: false };

function parsePort(text) {
  text = text.trim().toLowerCase();
  if (!text) return null;
  if (text === 'icmp') return { protocol: 'icmp' };
  const found = /^(?:(tcp|udp|sctp)\/?)?(\d{1,5})?$/.exec(text);
  const port = found && found[2] ? Number(found[2]) : null;
  if (!found || port === 0 || port > 65535) return undefined;
  return { protocol: found[1] || null, port };
}

function carries(cell) {
  if (!wanted.port) return true;
  const { protocol, port } = wanted.port;
  return data.cells[cell].slice(0, 2).some(number => {
    const own = data.traffics[number];
    if (protocol === 'icmp') return own.icmp;
    const protocols = protocol ? [protocol] : ['tcp', 'udp', 'sctp'];
    return protocols.some(p => own[p].some(([low, high]) => port === null || (low <= port && port <= high)));
  });
}

const found = (from, to) => entries(from, to).filter(([, cell]) => carries(cell));

function ends() {
  const all = data.workloads.map((_, at) => at).filter(at => data.workloads[at][3]);
  const matches = at => {
    const [namespace, own, kind] = data.workloads[at];
    const text = (data.namespaces[namespace] + '/' + own + ' ' + kind).toLowerCase();
    return (wanted.namespace === '' || String(namespace) === wanted.namespace) && text.includes(wanted.search);
  };
  let shown = all.filter(matches);
  if (wanted.neighbours && shown.length < all.length) {
    const own = new Set(shown);
    const some = shown.slice(0, MOST);
    shown = all.filter(at => own.has(at) || some.some(one => found(one, at).length || found(at, one).length));
  }
  const also = [];
  if (data.controller.length) also.push(CONTROLLER);
  if (data.outsides.length > 1) also.push(OUTSIDE);
  if (wanted.connected) {
    const others = shown.concat(also);
    shown = shown.filter(at => others.some(other => other !== at && (found(at, other).length || found(other, at).length)));
  }
  return { shown: shown.slice(0, MOST), left: Math.max(0, shown.length - MOST), all: all.length, also };
}

// ---------------------------------------------------------------- putting it on the screen

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function said(from, to) {
  return found(from, to).map(([addresses, cell]) => {
    const where = data.texts[addresses];
    if (!addresses || where === 'all addresses outside') return traffic(cell);
    return traffic(cell) + (to === OUTSIDE ? ' to ' : ' from ') + where;
  }).join('; ');
}

function drawMatrix({ shown, also }) {
  const rows = shown.concat(also), columns = shown.concat(also.filter(end => end !== CONTROLLER));
  const dense = columns.length > DENSE;
  const table = make('table', { class: dense ? 'grid dense' : 'grid', role: 'grid', 'aria-label': 'Who can talk to whom: rows send, columns receive' });
  const head = make('tr', {}, make('th', { scope: 'col' }, 'from \\ to'));
  for (const to of columns) head.append(make('th', { scope: 'col', title: name(to) }, name(to)));
  table.append(make('thead', {}, head));
  const body = make('tbody', {});
  for (const from of rows) {
    const line = make('tr', {}, make('th', { scope: 'row', title: name(from) }, name(from)));
    for (const to of columns) {
      const text = said(from, to);
      const all = text === 'all';
      const cell = make('td', { role: 'gridcell', tabindex: '-1', 'data-from': from, 'data-to': to });
      cell.setAttribute('aria-label', `${name(from)} to ${name(to)}: ${text || 'nothing'}`);
      if (text) {
        cell.className = all ? 'all' : 'some';
        cell.title = text;
      }
      cell.textContent = !text ? '·' : dense ? (all ? '●' : '◐') : text;
      line.append(cell);
    }
    body.append(line);
  }
  table.append(body);
  const first = body.querySelector('td');
  if (first) first.tabIndex = 0;
  $('matrix').replaceChildren(table);
}

function reasons(number) {
  const why = data.whys[number];
  if (!why.length) {
    return make('p', {}, data.explained ? '' : 'This map is too large to carry its reasons: ', make('code', {}, data.explained ? '' : 'palisade map --focus NAMESPACE/NAME --explain'));
  }
  const table = make('table', { class: 'why' });
  for (const [side, part, text, at, action] of why.map(one => one.map(number => data.texts[number]))) {
    const kind = action === 'Allow' ? 'allow' : action === 'Pass' ? 'pass' : 'deny';
    const sign = { allow: '+', pass: '»', deny: '−' }[kind];
    const words = make('td', {}, make('span', { class: kind }, sign + ' '), text);
    if (at) words.append(make('br'), make('code', {}, at));
    table.append(make('tr', {}, make('td', {}, side), make('td', {}, part), words));
  }
  return table;
}

// Who decided that nothing is let through: workloads of a kind have the same reasons.
function refusal(from, to) {
  if (from === OUTSIDE || to === OUTSIDE) return (from === OUTSIDE ? data.deniedIn[data.kinds[to]] : data.deniedOut[data.kinds[from]]) || 0;
  if (from < 0 || from === to) return 0;
  const runs = data.denied[data.kinds[from]] || [];
  for (let at = 0, i = 0; i < runs.length; i += 2) {
    at += runs[i];
    if (data.kinds[to] < at) return runs[i + 1];
  }
  return 0;
}

function explain(from, to) {
  const list = entries(from, to);
  $('panel-title').textContent = `${name(from)} → ${name(to)}`;
  const body = [];
  if (!list.length) {
    const why = refusal(from, to);
    body.push(make('p', {}, make('strong', {}, why ? 'nothing' : 'Nothing is let through, or it was not asked for.')));
    if (why) body.push(reasons(why));
  }
  for (const [addresses, cell] of list) {
    const where = data.texts[addresses];
    body.push(make('p', {}, make('strong', {}, traffic(cell)), where ? (to === OUTSIDE ? ' to ' : ' from ') + where : ''));
    body.push(reasons(data.cells[cell][3]));
  }
  $('panel-body').replaceChildren(...body);
  $('panel').hidden = false;
}

// ---------------------------------------------------------------- the graph

const SVG = 'http://www.w3.org/2000/svg';

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function drawGraph({ shown, also }) {
  const wide = shown.length > MOST_IN_GRAPH;
  const groups = also.map(end => ({ title: null, nodes: [{ key: String(end), label: name(end), end }] }));
  const keyOf = end => end < 0 || !wide ? String(end) : 'n' + data.workloads[end][0];
  let last = null;
  for (const at of shown) {
    const namespace = data.workloads[at][0];
    if (!last || last.namespace !== namespace) groups.push(last = { namespace, title: data.namespaces[namespace], nodes: [] });
    if (!wide) last.nodes.push({ key: keyOf(at), label: data.workloads[at][1], end: at });
    else if (!last.nodes.length) last.nodes.push({ key: keyOf(at), label: data.namespaces[namespace], namespace });
  }
  const edges = new Map();
  const every = shown.concat(also);
  for (const from of every) {
    for (const to of every) {
      if (to === CONTROLLER || (from === to && !wide)) continue;
      const text = said(from, to);
      if (!text) continue;
      const key = keyOf(from) + ' ' + keyOf(to);
      const edge = edges.get(key) || { from, to, text, count: 0 };
      edge.count += 1;
      edges.set(key, edge);
    }
  }
  const places = new Map(), svg = draw('svg', { role: 'group', 'aria-label': 'The graph of who can talk to whom' });
  const size = layOut(groups, places, svg);
  for (const [key, edge] of edges) {
    const [a, b] = key.split(' ').map(one => places.get(one));
    const text = wide ? `${edge.count} connected` : edge.text;
    const label = wide ? `${a.label} → ${b.label}: ${text}` : `${name(edge.from)} → ${name(edge.to)}: ${text}`;
    const d = curve(a, b);
    const shape = draw('g', { class: 'edge', tabindex: '0', role: 'button', 'aria-label': label }, draw('title', {}, label),
      draw('path', { d, 'marker-end': 'url(#arrow)' }), draw('path', { d, class: 'wide' }));
    if (!wide) activate(shape, () => explain(edge.from, edge.to));
    svg.append(shape);
  }
  for (const { x, y, width, label, node } of places.values()) {
    const shape = draw('g', { class: 'node', tabindex: '0', role: 'button', 'aria-label': `${label}: show with whom it talks` },
      draw('rect', { x, y, width, height: 26, rx: 5 }), draw('text', { x: x + 9, y: y + 17 }, label.length > 36 ? label.slice(0, 35) + '…' : label));
    activate(shape, () => narrow(node));
    svg.append(shape);
  }
  svg.prepend(draw('defs', {}, draw('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto', markerUnits: 'userSpaceOnUse' }, draw('path', { d: 'M0 0 8 4 0 8z' }))));
  for (const [key, value] of Object.entries({ width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}` })) svg.setAttribute(key, value);
  $('graph').replaceChildren(svg);
  if (wide) $('graph').prepend(make('p', {}, `More than ${MOST_IN_GRAPH} workloads: namespaces are drawn instead.`));
}

// Boxes fill columns from left to right; who is no workload stands in a column of its own.
function layOut(groups, places, svg) {
  const tall = group => group.title === null ? 26 : 30 + group.nodes.length * 34;
  const total = groups.filter(group => group.title !== null).reduce((sum, group) => sum + tall(group) + 34, 0);
  let columns = 1;
  while (columns * columns * 300 < total && columns < 8) columns += 1;
  let x = 16, y = 16, width = 0, column = 0, bottom = 0;
  groups.forEach((group, index) => {
    const named = group.title !== null;
    const firstNamed = named && index > 0 && groups[index - 1].title === null;
    if (firstNamed || (named && y > 16 && y + tall(group) / 2 > total / columns + 16)) {
      x += width + 150;
      [column, y, width] = [column + 1, 16, 0];
    }
    const longest = Math.max(...group.nodes.map(node => node.label.length), named ? group.title.length : 0);
    const own = Math.max(110, Math.min(longest, 36) * 7 + 22), inset = named ? 12 : 0;
    if (named) {
      svg.append(draw('rect', { class: 'box', x, y, width: own + 24, height: tall(group), rx: 8 }),
        draw('text', { class: 'title', x: x + 12, y: y + 18 }, group.title));
    }
    group.nodes.forEach((node, at) => places.set(node.key, { x: x + inset, y: y + (named ? 26 : 0) + at * 34, width: own, column, label: node.label, node }));
    width = Math.max(width, own + 2 * inset);
    y += tall(group) + 34;
    bottom = Math.max(bottom, y);
  });
  return [x + width + 80, bottom + 10];
}

function curve(a, b) {
  const [y1, y2] = [a.y + 13, b.y + 13];
  if (a.column === b.column) {
    const [start, end] = y1 === y2 ? [y1 - 6, y2 + 6] : [y1, y2];
    const [x1, x2] = [a.x + a.width, b.x + b.width];
    const bend = Math.max(x1, x2) + 22 + Math.min(Math.abs(start - end), 260) / 4;
    return `M${x1} ${start}C${bend} ${start} ${bend} ${end} ${x2} ${end}`;
  }
  const [x1, x2] = a.column < b.column ? [a.x + a.width, b.x] : [a.x, b.x + b.width];
  const bend = (x1 + x2) / 2;
  return `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`;
}

function activate(shape, act) {
  shape.addEventListener('click', act);
  shape.addEventListener('keydown', event => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      act();
    }
  });
}

function narrow(node) {
  if (node.namespace !== undefined) $('namespace').value = wanted.namespace = String(node.namespace);
  else if (node.end >= 0) {
    $('search').value = name(node.end);
    wanted.search = name(node.end).toLowerCase();
  }
  show();
}

// ---------------------------------------------------------------- what people do

let view = 'matrix';

function show() {
  const shown = ends();
  const left = shown.left ? `; ${shown.left} more match: narrow the search` : '';
  $('shown').textContent = `${shown.shown.length} of ${shown.all} workloads shown${left}`;
  for (const one of ['matrix', 'graph']) {
    $(one).hidden = one !== view;
    const tab = $('tab-' + one);
    tab.setAttribute('aria-selected', String(one === view));
    tab.tabIndex = one === view ? 0 : -1;
  }
  if (view === 'matrix') drawMatrix(shown); else drawGraph(shown);
}

function choose(cell) {
  for (const other of $('matrix').querySelectorAll('td[aria-selected=true]')) other.removeAttribute('aria-selected');
  cell.setAttribute('aria-selected', 'true');
  explain(Number(cell.dataset.from), Number(cell.dataset.to));
}

$('matrix').addEventListener('click', event => {
  const cell = event.target.closest('td');
  if (cell) choose(cell);
});
$('matrix').addEventListener('keydown', event => {
  const cell = event.target.closest('td');
  if (!cell) return;
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    return choose(cell);
  }
  const line = cell.parentElement, column = cell.cellIndex;
  const next = {
    ArrowRight: cell.nextElementSibling, ArrowLeft: cell.previousElementSibling,
    ArrowDown: line.nextElementSibling && line.nextElementSibling.cells[column],
    ArrowUp: line.previousElementSibling && line.previousElementSibling.cells[column],
    Home: line.cells[1], End: line.cells[line.cells.length - 1],
  }[event.key];
  if (next && next.tagName === 'TD') {
    event.preventDefault();
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
});
for (const one of ['matrix', 'graph']) {
  $('tab-' + one).addEventListener('click', () => { view = one; show(); });
  $('tab-' + one).addEventListener('keydown', event => {
    if (event.key !== 'ArrowRight' && event.key !== 'ArrowLeft') return;
    view = view === 'matrix' ? 'graph' : 'matrix';
    show();
    $('tab-' + view).focus();
  });
}
let waiting = 0;
function filter() {
  wanted.search = $('search').value.trim().toLowerCase();
  wanted.namespace = $('namespace').value;
  wanted.neighbours = $('neighbours').checked;
  wanted.connected = $('connected').checked;
  const port = parsePort($('port').value);
  $('port-problem').textContent = port === undefined ? 'write tcp/443, udp, 53 or icmp' : '';
  wanted.port = port || null;
  clearTimeout(waiting);
  waiting = setTimeout(show, 60);
}
$('filters').addEventListener('input', filter);
$('filters').addEventListener('submit', event => event.preventDefault());
$('filters').addEventListener('reset', () => setTimeout(filter));
function close() {
  $('panel').hidden = true;
  const chosen = $('matrix').querySelector('td[aria-selected=true]');
  if (chosen && view === 'matrix') chosen.focus();
}
$('close').addEventListener('click', close);
document.addEventListener('keydown', event => { if (event.key === 'Escape') close(); });

$('summary').textContent = data.summary;
$('note').textContent = data.note;
const inUse = new Set(data.workloads.filter(one => one[3]).map(one => one[0]));
data.namespaces.forEach((namespace, at) => {
  if (inUse.has(at)) $('namespace').append(make('option', { value: String(at) }, namespace));
});
show();
