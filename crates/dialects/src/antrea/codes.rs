//! What can be wrong with Antrea's objects: `N01` what their definitions ask for, `N02` what Antrea's webhook and we ask
//! of one object, `N03` what they ask of several.

use palisade_model::diagnostic::{Code, Severity};

use crate::codes::codes;

codes! {
    /// Required.
    REQUIRED = "N0101" Error "a required field is missing":
        "Antrea's custom resource definitions want this field. The message is the API server's own.";
    /// Out of range.
    RANGE = "N0102" Error "a number out of range":
        "Priorities of policies go from 1 to 10000, fractions included; those of tiers from 0 to 255; types and codes of ICMP from 0 to 255. Neither infinity nor `.nan` is a priority.";
    /// Enumerations.
    SUPPORTED = "N0103" Error "a value that is not one of those supported":
        "Actions are `Allow`, `Drop`, `Reject` and `Pass` (`Allow` and `Drop` in the API of 2020; there is no `Deny`); protocols TCP, UDP and SCTP; `namespaces.match` is `Self`; IGMP queries (17) come in, reports (18, 22, 34) go out.";
    /// Lists.
    ITEMS = "N0104" Error "a list with too many or too few items, or a text that is too long":
        "Antrea's definitions bound some lists and texts: a log label has at most 63 characters. The message is the API server's own.";
    /// Exactly one.
    ONE_OF = "N0105" Error "not exactly one of the alternatives":
        "An entry of `protocols` is `icmp` or `igmp`, one of `l7Protocols` is `http` or `tls`, and `namespaces` of a peer has `match` or `sameLabels`. Write several entries to mean several.";
    /// Forms.
    FORM = "N0106" Error "a text that the definition does not take":
        "Address blocks are CIDRs such as `10.0.0.0/8`, group addresses are addresses; a `logLabel` has at most 63 letters, digits, `-`, `_` and `.`, and begins and ends with a letter or a digit, as does the value of a label. The message has the API server's text, and Go's behind it where both speak.";
    /// Selectors.
    SELECTOR = "N0107" Error "a label selector that selects nothing that could exist":
        "Antrea checks `matchLabels` only. A selector whose `matchExpressions` cannot be read selects everything there; here it is refused, and fails closed.";
    /// Labels without a value.
    NULL_LABEL = "N0108" Warning "a label without a value in a selector":
        "`matchLabels: {tenant: }` holds a null, which the API server drops: the selector is then wider than it looks, and `{}` selects everything. Palisade reads it as the server does. A template whose variable is empty is a frequent cause.";
    /// Metadata.
    METADATA = "N0109" Error "metadata that the API server refuses":
        "Names are DNS subdomains (lower case letters, digits, `-` and `.`); label keys and values have their own forms. The message is the API server's own.";

    /// Pass in baseline.
    PASS_IN_BASELINE = "N0201" Error "Pass in the baseline tier":
        "`Pass` leaves the tiers for the NetworkPolicies behind them. The baseline tier comes after these: there is nothing to pass to.";
    /// Rule names.
    RULE_NAME = "N0202" Error "two rules of one name":
        "Names of rules are unique in a policy, over both directions. A rule without a name gets one that is made of its content, so two unnamed rules that say the same get the same name, and the policy is refused: remove one of them.";
    /// appliedTo: where.
    APPLIED_TO = "N0203" Error "appliedTo in the wrong places":
        "A policy says whom it applies to once: in `spec.appliedTo`, or in `appliedTo` of every rule.";
    /// appliedTo: what.
    APPLIED_TO_ENTRY = "N0204" Error "an entry of appliedTo that says too much":
        "`group`, `serviceAccount`, `service` and `nodeSelector` each stand alone in an entry; `podSelector` and `externalEntitySelector` may have `namespaceSelector` beside them where that exists. Entries are alternatives: write two to mean both.";
    /// Services.
    APPLIED_TO_SERVICE = "N0205" Error "a Service in appliedTo where it cannot be":
        "A rule that applies to a Service is about what comes in to it from addresses: it is an ingress rule, its peers are `ipBlock`s, and nothing but Services stands in the same `appliedTo`.";
    /// Labels.
    LABEL = "N0206" Error "a label that nobody can carry":
        "Keys of labels are a name, or a DNS subdomain, a slash and a name; values have at most 63 letters, digits, `-`, `_` and `.`. The message is Antrea's own.";
    /// Peers.
    PEER = "N0207" Error "a peer that says too much":
        "A peer is one of: pods or external entities with or without their namespaces (by `namespaceSelector` or `namespaces`), `ipBlock`, `group`, `fqdn`, `serviceAccount`, `nodeSelector`. Antrea refuses some combinations and of others silently takes one part and forgets the rest; here all of them are refused. Entries are alternatives: write two to mean both.";
    /// Address blocks.
    IP_BLOCK = "N0208" Error "an address block that cannot be":
        "`cidr` is there, and each `except` lies inside of it and is smaller.";
    /// toServices.
    TO_SERVICES = "N0209" Error "toServices together with something else":
        "`toServices` names Services by the addresses that clients use; the ports are those of the Services. It stands alone in a rule, without `to`, `ports`, `protocols` and `l7Protocols`.";
    /// Names.
    FQDN = "N0210" Error "an fqdn that cannot be a DNS name":
        "A name consists of letters, digits, `-` and dots; each `*` in it stands for any number of characters.";
    /// Multicast.
    MULTICAST = "N0211" Error "multicast where it cannot be":
        "Multicast addresses are not mixed with others in a rule or a group, and multicast traffic is allowed or dropped: it can be neither rejected nor passed on.";
    /// IGMP.
    IGMP = "N0212" Error "IGMP where it cannot be":
        "A rule about IGMP has nothing but its action and `igmp`: no ports, no peers, no ICMP. It allows or drops, and its group address is a multicast address.";
    /// Layer 7.
    LAYER7 = "N0213" Error "l7Protocols where they cannot be":
        "Rules with `l7Protocols` allow: what matches below and does not match above is dropped. HTTP runs over TCP, and `toServices` is decided before there is any content.";
    /// Ports.
    PORT = "N0214" Error "a port that cannot be":
        "Ports go from 1 to 65535 (Antrea does not check that). `endPort` needs a `port` that is a number and not larger, `sourceEndPort` a `sourcePort`. A number in quotes is the name of a port, which must have a letter.";
    /// Long labels.
    LOG_LABEL = "N0215" Warning "a logLabel that is cut off":
        "Policies on Nodes log through the kernel, which has room for 12 characters of the label.";
    /// TLS over anything.
    TLS_TRANSPORT = "N0216" Warning "tls with a protocol that carries none":
        "TLS runs over TCP. Antrea accepts the rule; traffic of other protocols that matches it is given to the layer 7 engine, does not match there, and is dropped.";
    /// Groups.
    GROUP = "N0217" Error "a group with more than one source":
        "A group is pods or external entities (with or without `namespaceSelector`), nodes, `ipBlocks`, `serviceReference` or `childGroups`: one of them. Write one group for each, and a group with all of them as its children.";
    /// Not in 2020.
    NOT_IN_2020 = "N0218" Error "something that the API of 2020 forbids":
        "In `security.antrea.tanzu.vmware.com/v1alpha1`, `appliedTo` cannot have an `ipBlock`, that of a NetworkPolicy no `namespaceSelector`, and an `ipBlock` no `except`. `crd.antrea.io/v1beta1` has `except`; until then write a rule for the exception before the other.";
    /// Every pod.
    EMPTY_ENTRY = "N0219" Warning "an entry without a selector":
        "`{}` in `appliedTo`, `from` or `to` is every pod, as `podSelector: {}` is: of the cluster, or of the namespace of a NetworkPolicy. As a peer it is nobody but pods; to mean every address leave out the whole list.";

    /// No such tier.
    NO_TIER = "N0301" Error "a tier that does not exist":
        "A policy stands in a tier, which must exist before it. Built in are emergency, securityops, networkops, platform, application (where a policy stands that names none) and, in `crd.antrea.io`, baseline; their old names with capitals mean the same.";
    /// Two tiers, one priority.
    TIER_OVERLAP = "N0302" Error "two tiers with one priority":
        "The priority of a tier is its place, and no two tiers have the same. The built-in tiers count: 50, 100, 150, 200, 250 and 253, or 5, 50, 100, 150 and 250 in the API of 2020.";
    /// Reserved priorities.
    TIER_RESERVED = "N0303" Error "a tier with a reserved priority":
        "251 is the place of AdminNetworkPolicy, 252 that of NetworkPolicy, 254 and 255 come after the baseline tier, and 220 is the place of the upstream ClusterNetworkPolicy. In the API of 2020 251 to 255 are reserved.";
    /// Too many tiers.
    TIER_COUNT = "N0304" Error "too many tiers":
        "There are at most 20 tiers, the built-in ones included.";
    /// Immutable.
    TIER_UPDATE = "N0305" Error "a change of a tier that cannot be made":
        "The priority of a tier cannot be changed: create another tier and move the policies. In the API of 2020 the static tiers cannot be changed at all.";
    /// Built-in tiers.
    TIER_BUILT_IN = "N0306" Error "a built-in tier is Antrea's own":
        "Antrea creates these tiers; they can be neither created nor deleted by anybody else.";
    /// Referenced.
    TIER_IN_USE = "N0307" Error "a tier that policies stand in":
        "A tier is deleted after the last policy in it.";
    /// Built-in tiers with other values.
    TIER_VALUE = "N0308" Warning "a built-in tier with an unusual priority":
        "The object gives a built-in tier a priority that Antrea does not give it. Palisade follows the object. Antrea's controller sets these priorities when it starts: usually this is an export of an old cluster.";
    /// Both groups.
    BOTH_APIS = "N0309" Warning "objects of both of Antrea's API groups":
        "`crd.antrea.io` and `security.antrea.tanzu.vmware.com` (2020) give different priorities to the built-in tiers emergency, securityops, networkops and platform. Those of `crd.antrea.io` are used for all policies, as after an upgrade.";
    /// Nesting.
    GROUP_NESTING = "N0310" Error "groups inside groups inside groups":
        "A group with children cannot be the child of another, nor of itself. What is in such a group is not computed by Antrea.";
    /// Dangling children.
    NO_GROUP = "N0311" Error "a child group that does not exist":
        "A child group that does not exist has no members. Antrea accepts the parent, because the child may be created later, and computes it from the other children until then.";
    /// A tier in the way.
    TIER_220 = "N0312" Error "a tier at the place of the upstream ClusterNetworkPolicy":
        "ClusterNetworkPolicy of `policy.networking.k8s.io` in its tier Admin stands at 220. While a tier of a user has that priority, Antrea refuses to create them.";
}
