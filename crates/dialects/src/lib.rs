//! Every network-policy dialect: read with source positions, validated as its API does, lowered to the model.

pub mod apimachinery;
pub mod source;
