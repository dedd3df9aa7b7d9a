//! The arguments of `palisade convert`.

use clap::{Args, ValueEnum};

use super::{CompileOutput, InputArgs, ThoriumArgs};

/// Say the same policies in another dialect.
///
/// Every policy of the input that is of another dialect is said in the one asked for; what is in it already is printed as it
/// is. Objects are read back and compared with what they stand for, connection by connection, before they are printed. A rule that
/// the other dialect cannot say is named with the reason, and nothing is printed; with --partial what can be said is printed and
/// the rest stays as it is. docs/convert.md has what can be said where.
///
/// Exit code: 0 converted and compared, 1 something cannot be said or the input has errors, 2 nothing to convert, a file could not be
/// read, or the comparison failed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade convert --to clusternetworkpolicy -f admin-policies/
  kubectl get anp,banp -o yaml | palisade convert --to clusternetworkpolicy -f - > cnp.yaml
  palisade convert --to clusternetworkpolicy --from adminnetworkpolicy -f examples/shop
  palisade convert --to networkpolicy --from thorium -f examples/thorium --output json
  palisade convert --to antrea -f policies/ --partial")]
pub struct ConvertArgs {
    /// The dialect to say them in
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub to: ConvertTo,
    /// Convert policies of this dialect only, the others stay as they are; may be repeated
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub from: Vec<ConvertFrom>,
    #[command(flatten)]
    pub input: InputArgs,
    /// Print what can be said although something cannot
    #[arg(long)]
    pub partial: bool,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How to print objects
    #[arg(long, short, value_enum, default_value_t = CompileOutput::Yaml, value_name = "FORMAT")]
    pub output: CompileOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConvertTo {
    /// networking.k8s.io/v1
    #[value(name = "networkpolicy")]
    NetworkPolicy,
    /// policy.networking.k8s.io/v1alpha2
    #[value(name = "clusternetworkpolicy")]
    ClusterNetworkPolicy,
    /// policy.networking.k8s.io/v1alpha1: AdminNetworkPolicy and BaselineAdminNetworkPolicy
    #[value(name = "adminnetworkpolicy")]
    AdminNetworkPolicy,
    /// crd.antrea.io/v1beta1
    Antrea,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConvertFrom {
    /// networking.k8s.io/v1
    #[value(name = "networkpolicy")]
    NetworkPolicy,
    /// extensions/v1beta1 of 2016, with the namespace's annotation
    #[value(name = "networkpolicy-2016")]
    NetworkPolicy2016,
    /// policy.networking.k8s.io/v1alpha1: AdminNetworkPolicy and BaselineAdminNetworkPolicy
    #[value(name = "adminnetworkpolicy")]
    AdminNetworkPolicy,
    /// policy.networking.k8s.io/v1alpha2
    #[value(name = "clusternetworkpolicy")]
    ClusterNetworkPolicy,
    /// crd.antrea.io/v1beta1
    Antrea,
    /// security.antrea.tanzu.vmware.com/v1alpha1 of 2020
    #[value(name = "antrea-2020")]
    Antrea2020,
    /// Thorium's tool policies
    Thorium,
}
