//! Variables of patches on the command line.

use std::convert::Infallible;
use std::str::FromStr;

use clap::Args;

/// What variables of patches stand for.
#[derive(Args, Clone, Default)]
pub(crate) struct VariableFlags {
    /// Give the variable NAME of patches a value, or without one let the environment's variable of that name through; repeat it.
    /// `TALMOX_VAR_NAME` and talenv.yaml give values too
    #[arg(long = "variable", value_name = "NAME[=VALUE]")]
    pub given: Vec<VariableFlag>,
}

/// `NAME=VALUE` or `NAME`. What is wrong with it is told later: clap would repeat a value that may be a secret. No `Debug` either.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct VariableFlag {
    pub name: String,
    pub value: Option<String>,
}

impl FromStr for VariableFlag {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once('=') {
            Some((name, value)) => Self { name: name.to_owned(), value: Some(value.to_owned()) },
            None => Self { name: text.to_owned(), value: None },
        })
    }
}

impl VariableFlags {
    /// The flags to type again, without values: they do not belong on a screen, and a shell refuses what stands in their place.
    pub(crate) fn words(&self) -> String {
        let word = |flag: &VariableFlag| match flag.value {
            Some(_) => format!(" --variable {}=<value>", flag.name),
            None => format!(" --variable {}", flag.name),
        };
        self.given.iter().map(word).collect()
    }
}
