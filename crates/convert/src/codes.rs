//! Diagnostic codes of conversions: `C01` for what the target cannot express, `C02` for what it expresses in another way.

use palisade_model::diagnostic::{Code, Severity};

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident = $id:literal $severity:ident $title:literal: $explanation:literal;)*) => {
        $($(#[$meta])* pub static $name: Code = Code {
            id: $id, severity: Severity::$severity, title: $title, explanation: $explanation,
        };)*

        /// All codes of conversions, by id.
        pub static ALL: &[&Code] = &[$(&$name,)*];
    };
}

codes! {
    /// The target does not have the rule's action.
    ACTION = "C0101" Error "an action that the other dialect does not have":
        "ClusterNetworkPolicy and AdminNetworkPolicy deny by dropping: they cannot say Antrea's Reject, which answers. NetworkPolicy only allows; what it does not allow it drops, and only for pods that it isolates. Writing a near action instead would change what clients see, so the rule is not converted.";
    /// The target does not have the rule's peer.
    PEER = "C0102" Error "a peer that the other dialect cannot name":
        "Ingress rules of ClusterNetworkPolicy and AdminNetworkPolicy know pods only: no address, no node, and therefore not everybody. Nobody but Antrea knows services, service accounts, external entities and namespaces that are like the subject's; NetworkPolicy knows pods and address blocks only. A peer is never widened and never left out: the rule is not converted.";
    /// The target does not have the policy's subject.
    SUBJECT = "C0103" Error "whom a rule applies to cannot be said in the other dialect":
        "ClusterNetworkPolicy and AdminNetworkPolicy apply to pods. Antrea's policies for nodes, services, external entities and service accounts have no counterpart there. A NetworkPolicy lives in one namespace: a rule for namespaces by their labels cannot become one, because a namespace that comes tomorrow would not have it.";
    /// The target does not have an entry of the rule's traffic.
    TRAFFIC = "C0104" Error "traffic that the other dialect cannot tell apart":
        "Only Antrea has ICMP types, IGMP and source ports in its rules. ClusterNetworkPolicy and AdminNetworkPolicy name a port without its protocol, NetworkPolicy and Antrea with it; a name in all three protocols can be said in both.";
    /// The target has no conditions on layer 7.
    LAYER7 = "C0105" Error "conditions on layer 7 cannot be said in the other dialect":
        "`l7Protocols` is Antrea's alone. Without the condition the rule would allow more than it did.";
    /// The order of two policies would change, or no priority is left.
    ORDER = "C0106" Error "the place of a policy in the order cannot be said in the other dialect":
        "Policies that are converted come to stand in another tier. Where that would put them before or after a policy that stays as it is, and both may apply to the same pods, the order would decide differently. There may also be no priority left between policies that are there already: ClusterNetworkPolicy and AdminNetworkPolicy have whole numbers from 0 to 1000. Convert the other policy too, or give it another priority first.";
    /// First-match rules that a union cannot express, or a union that rules in order cannot.
    UNION = "C0107" Error "a policy of a tier that a NetworkPolicy cannot stand for, or the other way round":
        "The first rule of a tier that matches decides; NetworkPolicies add up, and deny whatever none of them allows. A tier's rules can be said as NetworkPolicies only if, for each namespace and direction, they allow first and then deny everything to the same pods, and if no other policy has a say about these pods in between.";
    /// Unparsable parts, missing groups, missing tiers.
    UNREADABLE = "C0108" Error "what cannot be read is not converted":
        "A rule that holds something unreadable, or that names a group or a tier which does not exist, fails closed here. Another dialect has no words for that: correct the rule first.";
    /// The target's limits on objects and rules.
    LIMIT = "C0109" Error "more than the other dialect can hold":
        "There is one BaselineAdminNetworkPolicy in a cluster, with one subject. A ClusterNetworkPolicy has at most 25 rules a direction, peers a rule and protocols a rule, an AdminNetworkPolicy 100: what is more is split over several rules and policies, as long as there are priorities for them.";
    /// A limit of this program on the size of a conversion.
    TOO_MUCH = "C0110" Error "more than is converted":
        "Some policies say in a few words what takes very many elsewhere: groups of thousands that thousands of rules name, thousands of policies that take turns. What is converted is bounded, so that no input exhausts the machine. Convert fewer policies at once, or write them with fewer combinations.";

    /// Logging is dropped.
    LOGGING = "C0201" Warning "logging is not said in the other dialect":
        "`enableLogging` and `logLabel` are Antrea's alone. What is allowed and denied stays the same; what was logged is not logged any more.";
    /// A group is expanded.
    GROUP = "C0202" Note "a group is written out":
        "Only Antrea has groups. Who is in the group now, by its selectors and blocks, is written where its name stood; when the group changes, the converted policy does not.";
    /// An emitted object has another name than its policy.
    NAME = "C0203" Note "a policy gets another name":
        "The name is taken by another policy of the same kind, one policy becomes several, or a policy of a namespace becomes one of the cluster.";
    /// A policy or a rule without effect is left out.
    NO_EFFECT = "C0204" Note "a policy, or a rule, without effect is left out":
        "An admin policy without rules does nothing, and of two policies that isolate the same pods one is enough. A NetworkPolicy of 2016 in a namespace that is not isolated opens nothing, and a rule whose peers or ports are an empty list there matches nothing. None of this needs to be said, and in `networking.k8s.io/v1` the last two would mean something else: there a policy isolates, and an empty list is everybody.";
    /// An object of the old dialect is left, without effect.
    LEFT = "C0205" Note "something of the old dialect is left that does no harm":
        "A namespace stays isolated by its annotation of 2016 as long as it has it. The converted policies isolate the same pods, so the annotation can be removed when they are in force.";
    /// The emitted rule needs the experimental channel of the CRDs.
    EXPERIMENTAL = "C0206" Note "the converted rule needs the experimental channel":
        "The definitions of `policy.networking.k8s.io` come in two channels. The standard one does not have `nodes` and `domainNames`, nor `namedPort` in v1alpha1: an API server with that one drops the field, and the rule that is left fails closed. Install the experimental channel before the converted policies are applied.";
    /// An emitted object has another priority than its policy.
    PRIORITY = "C0207" Note "a policy gets another priority":
        "Priorities of one dialect are not those of another: they begin elsewhere, are of another tier, or there are others between which the policy has to stand. The order in which policies are asked is the same. Who writes policies beside the converted ones, or refers to a priority elsewhere, has to know the new one.";
}
