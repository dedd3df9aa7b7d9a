//! Tools, groups and labels of a rule.

use smol_str::SmolStr;

use super::Checks;
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::thorium::codes;
use crate::thorium::policy::{Home, Peer, Sort};
use crate::thorium::program;
use crate::thorium::types;

impl Checks<'_, '_> {
    pub(super) fn tools(
        &mut self,
        rule: &types::Rule,
        path: &Path<'_>,
        peers: &mut Vec<Peer>,
        unreadable: &mut Option<String>,
    ) {
        let lists = [("allowed_tools", &rule.allowed_tools), ("tools", &rule.tools)];
        if let [(_, Some(_)), (_, Some(_))] = lists {
            let message = "tools and allowed_tools are one field: the rule allows nobody";
            self.error(&codes::BOTH_TOOLS, &path.child("tools"), message).help =
                Some("put all tools into allowed_tools".to_owned());
            unreadable.get_or_insert("tools and allowed_tools in one rule".to_owned());
        } else if rule.tools.is_some() {
            let message = "tools is read as allowed_tools; Thorium's program ignores it";
            self.reader.report(&codes::TOOLS_SPELLING, &path.child("tools"), message).help =
                Some("write allowed_tools".to_owned());
        }
        for (key, list) in lists {
            let path = path.child(key);
            for (index, tool) in list.iter().flatten().enumerate() {
                self.name(tool, &path.index(index), "tool", unreadable);
                peers.push(Peer::Tool(tool.clone()));
            }
        }
    }

    /// The name of a group or a tool, which must be the value of a label.
    pub(super) fn name(&mut self, name: &str, path: &Path<'_>, what: &str, unreadable: &mut Option<String>) {
        let wrong = if name.is_empty() { Some(String::new()) } else { names::label_value(name).pop() };
        if let Some(why) = wrong {
            let message =
                format!("{name:?} is no name of a {what}{}{why}", if why.is_empty() { "" } else { ": " });
            self.error(&codes::LABEL, path, &message);
            unreadable.get_or_insert(format!("{path} cannot be read"));
        } else if self.sort == Sort::Regular && !program::takes_name(name) {
            self.refused_name(name, path);
        }
    }

    /// A custom rule. Fields that are unknown are not considered.
    pub(super) fn custom(&mut self, custom: &types::Custom, path: &Path<'_>) -> Result<Peer, String> {
        let unreadable = format!("{path} cannot be read");
        let namespaces = self.labels(custom.namespace_labels.as_deref(), &path.child("namespace_labels"));
        let pods = self.labels(custom.pod_labels.as_deref(), &path.child("pod_labels"));
        let (Some(namespaces), Some(pods)) = (namespaces, pods) else { return Err(unreadable) };
        match (namespaces.is_empty(), pods.is_empty()) {
            // What it was to have may be behind the field that nobody knows.
            (true, true) if custom.unreadable.is_some() => return Err(unreadable),
            (true, true) => {
                let message = "a custom rule needs namespace_labels, pod_labels or both";
                self.error(&codes::CUSTOM, path, message);
                return Err(unreadable);
            }
            (true, false) => {
                let message = "pods of any namespace; in Thorium's program of the tool's own group only";
                self.differs(&codes::DIFFERS_POD_LABELS, path, message);
            }
            _ => {}
        }
        let namespaces = if namespaces.is_empty() { Home::Any } else { Home::Labels(namespaces) };
        Ok(Peer::Labels { namespaces, pods })
    }

    /// The labels of a list; `None` when one of them cannot be read.
    fn labels(
        &mut self,
        labels: Option<&[types::Label]>,
        path: &Path<'_>,
    ) -> Option<Vec<(SmolStr, SmolStr)>> {
        let mut read = Vec::new();
        let mut fine = true;
        for (index, label) in labels.unwrap_or_default().iter().enumerate() {
            let path = path.index(index);
            let parts = [
                (&label.key, "key", names::qualified_name as fn(&str) -> Vec<String>),
                (&label.value, "value", names::label_value),
            ];
            for (part, key, check) in parts {
                let path = path.child(key);
                let Some(text) = part else {
                    if label.unreadable.is_none() {
                        self.error(&codes::MISSING_FIELD, &path, &format!("a label needs its {key}"));
                    }
                    fine = false;
                    continue;
                };
                if let Some(why) = check(text).pop() {
                    self.error(&codes::LABEL, &path, &format!("{text:?} is no {key} of a label: {why}"));
                    fine = false;
                } else if self.sort == Sort::Regular && !program::takes_name(text) {
                    self.refused_name(text, &path);
                }
            }
            if let (Some(key), Some(value)) = (&label.key, &label.value) {
                read.push((key.clone(), value.clone()));
            }
        }
        fine.then_some(read)
    }
}
