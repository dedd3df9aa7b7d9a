//! What can be wrong with Thorium's policies: `T01` is refused, `T02` is legal and probably not meant, `T03` names a
//! difference between Thorium's document, which counts here, and its program.

use palisade_model::diagnostic::{Code, Severity};

use crate::codes::codes;

codes! {
    /// A field that must be there.
    MISSING_FIELD = "T0101" Error "a required field is missing":
        "Thorium's document calls this field required. An address block has `cidr`, a port `port`, a label `key` and `value`, a policy `name` and at least one entry in `groups`.";
    /// An empty name.
    EMPTY_NAME = "T0102" Error "a policy with an empty name":
        "A policy's name is any text, but not none: images refer to it.";
    /// A field nobody knows.
    UNKNOWN_FIELD = "T0103" Error "a field that Thorium does not have":
        "Thorium's program ignores fields it does not know, and a rule whose only field is ignored names nobody, which the program takes for *everybody*: one letter opens everything. Palisade refuses the field, and the rule that holds it allows nobody.";
    /// Not an address.
    CIDR = "T0104" Error "not an address or an address block":
        "`cidr` is an address (`10.10.10.10`, which means that one address) or a block (`10.10.0.0/16`) without bits beyond its length; `except` holds such, too.";
    /// An exception outside.
    EXCEPT_OUTSIDE = "T0105" Error "an exception that is not inside its block":
        "The document wants every entry of `except` inside `cidr`. Thorium's program does not look; Kubernetes then refuses the object, and the policy is not in force at all.";
    /// An exception of the other family.
    EXCEPT_FAMILY = "T0106" Error "an exception of the other address family":
        "An IPv4 block has IPv4 exceptions, an IPv6 block IPv6 ones.";
    /// An exception of a single address.
    EXCEPT_ON_ADDRESS = "T0107" Error "an exception of a single address":
        "A single address has no part to except. The document calls it an error; Thorium's program accepts it, and Kubernetes refuses the object.";
    /// No port.
    PORT = "T0108" Error "a number that is no port":
        "Ports are numbers from 1 to 65535. Thorium's program accepts 0, and Kubernetes refuses the object.";
    /// A range backwards.
    PORT_RANGE = "T0109" Error "a range of ports that ends before it begins":
        "`end_port` is the last port of the range and not below `port`. Thorium's program accepts it, and Kubernetes refuses the object.";
    /// No protocol.
    PROTOCOL = "T0110" Error "a protocol other than TCP, UDP and SCTP":
        "`protocol` is TCP, UDP or SCTP, in capitals; without it the port is open over all three.";
    /// No label.
    LABEL = "T0111" Error "a text that is no Kubernetes label":
        "Keys are names of at most 63 letters, digits, `-`, `_` and `.`, with a DNS prefix before a `/` if any; values are the same without a prefix. Names of tools must be label values, because pods carry them as one.";
    /// Nothing to match.
    CUSTOM = "T0112" Error "a custom rule without labels":
        "An entry of `allowed_custom` has `namespace_labels`, `pod_labels` or both. Without either it could mean nobody or everybody; Kubernetes refuses such a peer.";
    /// No such group.
    UNKNOWN_GROUP = "T0113" Error "a group that does not exist":
        "The ThoriumInstance manifests of the input list the groups there are. A policy cannot be in another one, and a rule cannot allow it. Without such a manifest groups are taken for given.";
    /// No common group.
    POLICY_NOT_IN_GROUP = "T0114" Error "a policy that is not in the tool's group":
        "Only policies in the same group as a tool can be added to it. Until it is put right the tool is isolated in both directions, except for what its other policies allow, because nobody knows what the policy would have restricted.";
    /// A base policy twice.
    DUPLICATE_BASE = "T0115" Error "two base policies of one name":
        "A base policy has a unique name among base policies. In Thorium's program the later one silently takes the place of the earlier. Here the later one isolates and allows nobody.";
    /// Not an admin.
    NOT_ADMIN = "T0116" Error "something that only admins may do":
        "Network policies are created, changed and deleted by Thorium admins. Tool developers add them to images.";
    /// A direction without a value.
    NULL_DIRECTION = "T0117" Error "a key with nothing behind it":
        "Whoever writes a key wants something, and to go on without it would be wider than it looks: a rule with nothing behind `ports` or `except` allows nobody, a policy with nothing behind `forced_policy` holds for all tools, an image with nothing behind `network_policies` is isolated.\n\n`ingress:` with nothing behind it (`null`) means three things in Thorium's program: in a rules file it denies everything or is an error, in a request and in thorium.yml it says nothing. Palisade refuses it and denies the direction. Write `[]` to deny everything, or leave the key out to say nothing about the direction.";
    /// Both spellings.
    BOTH_TOOLS = "T0118" Error "tools and allowed_tools in one rule":
        "Both spellings of the field stand in one rule, and nobody can say whether one was meant to replace the other. The rule allows nobody. Put all tools into `allowed_tools`.";
    /// A policy twice.
    DUPLICATE_POLICY = "T0119" Error "two policies of one name in one group":
        "Names are unique in a group: Thorium refuses to create the second. Which file came first nobody can tell, so one of them isolates the tools that have it and allows nobody.";
    /// No such file.
    UNKNOWN_RULES = "T0120" Error "a rules file that is not among the input":
        "A policy of a ThoriumInstance names its rules file by its path, relative to the manifest or from where Palisade was started. The file must be read, too: name it or its folder with `-f`. Until then the policy isolates and allows nobody.";
    /// Another scaler.
    SCALER = "T0121" Error "network policies on an image that Kubernetes does not run":
        "Network policies are enforced by Kubernetes, so only images of the scaler `K8s` can have them. The scalers are K8s, BareMetal, Windows, Kvm and External.";
    /// An image twice, or none.
    IMAGE = "T0122" Error "an image that is there twice, or not at all":
        "A group has one image of a name. Where it is written twice nobody can say which policies it has, so it is isolated until one of them is gone.";
    /// Not a namespace.
    GROUP_NAME = "T0123" Error "a group that cannot be a namespace":
        "A group's tools run in the namespace of the group's name, so that name must be one: at most 63 lower case letters, digits and `-`.";
    /// No such policy.
    UNKNOWN_POLICY = "T0124" Error "a policy that does not exist":
        "A step names a policy that nobody created, or that is gone already. Names are compared as they are written, capitals and all.";
    /// Rules twice.
    TWO_RULES = "T0125" Error "a rules file with more than one document":
        "A policy names its rules by their file, and this file holds several sets of them. Which one is meant nobody can say, so the policy isolates and allows nobody. Give each its own file.";
    /// Nearly Thorium's.
    NEARLY = "T0126" Error "a document that is nearly one of Thorium's":
        "Thorium's documents have no kind and are known by their keys; `palisade thorium verify` says what one is taken for. This one has a kind that does not exist, lacks the kind of our manifest, or has its base policies elsewhere than below `thorium`. Thorium would not see it. Palisade guesses what was meant, and fails closed.";
    /// Two namespaces.
    TWO_HOMES = "T0127" Error "two manifests that disagree about where Thorium runs":
        "`thoriumNamespace` is where the Thorium API runs, which the default base policy lets tools reach. There is one. The first manifest counts until they agree.";

    /// A rule that names nobody.
    NO_PEER = "T0201" Warning "a rule that names nobody":
        "A rule without any of `allowed_ips`, `allowed_groups`, `allowed_tools`, `allowed_local`, `allowed_internet`, `allowed_all`, `allowed_custom` allows nobody. **Thorium's program makes it everybody** (`--thorium program` shows what that does). Write `allowed_all: true` to mean everybody.";
    /// The table's spelling.
    TOOLS_SPELLING = "T0202" Warning "tools is spelled allowed_tools":
        "The document's table calls the field `tools`, its example `allowed_tools`. Both are read as the same. Thorium's program knows only `allowed_tools`: it ignores `tools`, and a rule that is empty then allows everybody.";
    /// One rule without a list.
    SINGLE_RULE = "T0203" Warning "one rule where a list of rules belongs":
        "The document's own example of an allow-all policy has a rule where a list belongs. It is read as a list of one. Thorium's program refuses to read the file.";
    /// A block with nothing left.
    EMPTY_BLOCK = "T0204" Warning "an exception as large as its block":
        "The exception lies within the block, as the document wants it, and leaves nothing of it. Kubernetes would refuse the block, so it is left out of the object; with Thorium's program the policy is not in force at all.";
    /// Two configurations.
    TWO_CONFIGS = "T0205" Warning "more than one configuration of Thorium":
        "The input holds more than one thorium.yml or ThoriumCluster. The base policies of all of them count, and their names must be unique among all.";
    /// The default base policy.
    DEFAULT_BASE = "T0206" Note "the default base policy applies":
        "No base policy is given, so Thorium applies its own to every tool: nothing in or out, except the Thorium API and cluster DNS over UDP. `palisade thorium effective GROUP/TOOL` shows it.";
    /// Rules that no policy has.
    UNUSED_RULES = "T0207" Note "a rules file that no policy uses":
        "A rules file alone has no name and no group: nothing of it is in force. Name it in the policy of a ThoriumInstance manifest (`rules: FILE`).";

    /// Tools outside of groups.
    TOOLS_ELSEWHERE = "T0208" Warning "pods of tools in a namespace that is no group":
        "Pods with the label `thorium=true` are tools, and base policies hold for the tools of groups. The manifests list the groups there are, and this namespace is none of them: **no policy of Thorium holds for these pods**. Add the group to a manifest.";

    /// All protocols.
    DIFFERS_PROTOCOL = "T0301" Note "a port without protocol is TCP only in Thorium's program":
        "The document says that without `protocol` all protocols are allowed: TCP, UDP and SCTP. Thorium's program leaves the field out of the Kubernetes object, where that means TCP. Write a port for each protocol to mean the same to both.";
    /// One address.
    DIFFERS_ADDRESS = "T0302" Note "a single address undoes the policy in Thorium's program":
        "The document allows a single address in `cidr`. Thorium's program writes it without a length, Kubernetes refuses the object, and **nothing of the policy is in force**. Write `/32` or `/128`.";
    /// No direction.
    DIFFERS_MISSING = "T0303" Note "a policy without rules denies all ingress in Thorium's program":
        "With neither `ingress` nor `egress` a policy says nothing. Thorium's program makes a Kubernetes object without `policyTypes`, which isolates ingress.";
    /// Labels.
    DIFFERS_LABEL = "T0304" Note "a name that Thorium's API refuses":
        "The document takes any Kubernetes label. Thorium's API takes lower case letters, digits and `-` only and refuses the whole request; in base policies it does not look.";
    /// Pods anywhere.
    DIFFERS_POD_LABELS = "T0305" Note "pod labels alone mean the tool's own group in Thorium's program":
        "The document says that pod labels match pods of the cluster. Thorium's program makes a Kubernetes peer without a namespace selector, which means pods of the policy's own namespace.";
    /// An empty list of base policies.
    DIFFERS_EMPTY_BASE = "T0306" Note "an empty list of base policies opens everything in Thorium's program":
        "`base_network_policies: []` gives none, so the document's default base policy applies. In Thorium's program it applies only if the key is missing: with `[]` no tool is isolated.";
    /// A base policy's name.
    DIFFERS_BASE_NAME = "T0307" Note "a base policy's name that Kubernetes refuses":
        "Thorium's program uses the name as that of the Kubernetes object. Kubernetes refuses it, tools are started nevertheless, and **nothing of the policy is in force**. Use lower case letters, digits and `-`.";
    /// A reserved name.
    DIFFERS_RESERVED = "T0308" Note "a base policy whose name overwrites a label":
        "Thorium's program labels each pod with the names of base policies, and `group` is such a label, too. One called `thorium` takes the place of the label that every policy selects by, so **no policy applies to any tool**; `stage` hides tools from `allowed_tools`.";
    /// Nested lists.
    DIFFERS_NESTING = "T0309" Note "lists around base_network_policies, as the document prints them":
        "The document prints `- thorium:` and `- base_network_policies:` as list items. Thorium's program wants mappings and does not start with such a file.";
    /// DNS peers.
    DIFFERS_DNS = "T0310" Note "allowed_local and allowed_internet open DNS pods in Thorium's program":
        "Besides the addresses, the program allows pods in kube-system: `node-local-dns` with `allowed_local`, `kube-dns` with `allowed_internet`, in both directions and on the rule's ports. The document does not mention them.";
    /// The same name elsewhere.
    DIFFERS_SAME_NAME = "T0311" Note "two policies of one name in different groups":
        "They are two policies. Thorium's program loads them by name, so the tools of one group can get the rules of the other. Which one wins is not defined, so `--thorium program` does not reproduce it.";
    /// A name in a path.
    DIFFERS_NAME = "T0312" Note "a name that Thorium's client cannot ask for":
        "The document takes any text as a name. Thorium's client puts it into a path as it is, so `/`, `?` and `#` lead elsewhere, and `:` separates a name from an id in `thorctl network-policies describe`. The policy can be created, and hardly be changed or deleted.";
}

/// The word that the cases of `suites/thorium` have for a refusal.
pub fn reason(code: &Code) -> Option<&'static str> {
    let reasons: &[(&Code, &'static str)] = &[
        (&MISSING_FIELD, "missing-field"),
        (&EMPTY_NAME, "empty-name"),
        (&UNKNOWN_FIELD, "unknown-field"),
        (&CIDR, "bad-cidr"),
        (&EXCEPT_OUTSIDE, "except-outside"),
        (&EXCEPT_FAMILY, "except-family"),
        (&EXCEPT_ON_ADDRESS, "except-on-address"),
        (&PORT, "bad-port"),
        (&PORT_RANGE, "bad-port-range"),
        (&PROTOCOL, "bad-protocol"),
        (&LABEL, "bad-label"),
        (&CUSTOM, "custom-without-labels"),
        (&UNKNOWN_GROUP, "unknown-group"),
        (&POLICY_NOT_IN_GROUP, "policy-not-in-group"),
        (&DUPLICATE_BASE, "duplicate-base-name"),
        (&NOT_ADMIN, "not-admin"),
        (&NO_PEER, "rule-without-peer"),
    ];
    reasons.iter().find(|(known, _)| known.id == code.id).map(|(_, reason)| *reason)
}
