//! The grammar of CEL, and the types of what is written in it.

use super::Environment;
use super::functions::{self, Call, Library};
use super::tokens::{Token, tokens};
use super::types::{Bindings, Type};

/// How deep expressions may nest: checking them must not exhaust the stack.
const DEEPEST: usize = 64;

/// How many bytes an expression may have. One that lists the serial numbers of a thousand disks has a third of it.
const LONGEST: usize = 64 * 1024;

/// How many names, values and signs an expression may have.
const MOST_TOKENS: usize = 10_000;

/// How many types the type of a value may be made of: a list is two. Genuine ones have four.
const LARGEST_TYPE: usize = 256;

/// Operators from the loosest to the tightest.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">", "in"], &["+", "-"], &["*", "/", "%"]];

/// Names of types, which `type()` is compared with.
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// The type of a whole expression.
pub(super) fn type_of(text: &str, environment: &Environment, minor: u16) -> Result<Type, String> {
    if text.len() > LONGEST {
        return Err(format!("is longer than {} KiB, and was not checked", LONGEST >> 10));
    }
    let tokens = tokens(text, MOST_TOKENS)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
        bound: Vec::new(),
        bindings: Bindings::default(),
        environment,
        minor,
    };
    let found = parser.expression()?;
    if parser.at < tokens.len() {
        return Err("goes on where it should end".to_owned());
    }
    Ok(parser.bindings.resolved(&found.kind))
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// Names that macros bind.
    bound: Vec<(String, Type)>,
    bindings: Bindings,
    environment: &'a Environment,
    minor: u16,
}

/// A part of an expression.
struct Part {
    kind: Type,
    /// Whether it is a field of something: `has` asks for one.
    is_field: bool,
}

impl From<Type> for Part {
    fn from(kind: Type) -> Self {
        Self { kind, is_field: false }
    }
}

impl<'a> Parser<'a> {
    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn expects(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("lacks `{sign}`")) }
    }

    /// The sign of something optional, where there is such a thing.
    fn takes_optional(&mut self) -> Result<bool, String> {
        let taken = self.takes("?");
        if taken && !self.environment.has(Library::Optional) {
            return Err("has `?` where nothing is optional".to_owned());
        }
        Ok(taken)
    }

    fn call(&mut self, name: &str, call: Call, given: &[Type]) -> Result<Type, String> {
        functions::result(&mut self.bindings, self.environment.libraries, name, call, given).ok_or_else(
            || match name {
                "[]" | "[?]" => "looks for an item where none is to be found by that".to_owned(),
                "?:" => "has values of different kinds beside `:`".to_owned(),
                _ if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name != "in" => {
                    format!("calls `{name}`, which is no function here or does not take that")
                }
                _ => format!("has values beside `{name}` that do not go with it: 10u is unsigned, 10 is not"),
            },
        )
    }

    fn wants_truth(&mut self, kind: &Type) -> Result<(), String> {
        if self.bindings.all_fit(std::slice::from_ref(kind), &[Type::Bool]) {
            Ok(())
        } else {
            Err("takes a value for true or false that is neither".to_owned())
        }
    }

    fn expression(&mut self) -> Result<Part, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("is nested too deeply".to_owned());
        }
        let mut part = self.binary(0)?;
        if self.takes("?") {
            let then = self.binary(0)?;
            self.expects(":")?;
            let otherwise = self.expression()?;
            part = self.call("?:", Call::Plain, &[part.kind, then.kind, otherwise.kind])?.into();
        }
        self.depth -= 1;
        Ok(part)
    }

    fn binary(&mut self, level: usize) -> Result<Part, String> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| self.takes(sign)) {
            let right = self.binary(level + 1)?;
            left = if level < 2 {
                self.wants_truth(&left.kind)?;
                self.wants_truth(&right.kind)?;
                Type::Bool.into()
            } else {
                self.call(sign, Call::Plain, &[left.kind, right.kind])?.into()
            };
        }
        Ok(left)
    }

    /// Signs before a value: two of them are none.
    fn unary(&mut self) -> Result<Part, String> {
        for sign in ["!", "-"] {
            let mut signs = 0;
            while self.takes(sign) {
                signs += 1;
            }
            if signs > 0 {
                let part = self.member()?;
                return if signs % 2 == 0 {
                    Ok(part)
                } else {
                    Ok(self.call(sign, Call::Plain, &[part.kind])?.into())
                };
            }
        }
        self.member()
    }

    fn member(&mut self) -> Result<Part, String> {
        let mut part = self.primary()?;
        loop {
            if part.kind.is_larger_than(LARGEST_TYPE) {
                return Err(format!("has a value whose type is made of more than {LARGEST_TYPE} types"));
            }
            if self.takes(".") {
                let optional = self.takes_optional()?;
                let name = self.name().ok_or("has a point without a name after it")?;
                part = if !optional && self.takes("(") {
                    self.member_call(&part.kind, name)?.into()
                } else {
                    Part { kind: self.field(&part.kind, name, optional)?, is_field: !optional }
                };
            } else if self.takes("[") {
                let sign = if self.takes_optional()? { "[?]" } else { "[]" };
                let index = self.expression()?;
                self.expects("]")?;
                part = self.call(sign, Call::Plain, &[part.kind, index.kind])?.into();
            } else {
                return Ok(part);
            }
        }
    }

    fn name(&mut self) -> Option<&'a str> {
        let Some(Token::Name(name)) = self.tokens.get(self.at) else { return None };
        self.at += 1;
        Some(name)
    }

    fn field(&mut self, of: &Type, name: &str, optional: bool) -> Result<Type, String> {
        let of = self.bindings.resolved(of);
        let was_optional = matches!(of, Type::Optional(_));
        let target = if let Type::Optional(inner) = of { *inner } else { of };
        let found = match &target {
            Type::Map(inner) => inner.1.clone(),
            Type::Object(object) => object
                .field(name, self.minor)
                .ok_or_else(|| format!("names `{}.{name}`, which Talos does not have", object.name))?
                .plain(),
            Type::Dyn => Type::Dyn,
            Type::Open(_) => {
                self.bindings.all_fit(&[Type::Dyn], std::slice::from_ref(&target));
                Type::Dyn
            }
            Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Null
            | Type::Duration
            | Type::Timestamp
            | Type::List(_)
            | Type::Optional(_)
            | Type::Meta(_) => return Err(format!("names `{name}` of something that has no fields")),
        };
        Ok(if optional || was_optional { Type::optional(found) } else { found })
    }

    fn member_call(&mut self, of: &Type, name: &str) -> Result<Type, String> {
        if let Some(kind) = self.macro_call(of, name)? {
            return Ok(kind);
        }
        let mut given = vec![of.clone()];
        given.extend(self.arguments()?);
        self.call(name, Call::Member, &given)
    }

    /// Macros: their first argument is a name of their own. Nothing if this is none.
    fn macro_call(&mut self, of: &Type, name: &str) -> Result<Option<Type>, String> {
        let over_items = ["all", "exists", "exists_one", "existsOne", "filter", "map"].contains(&name);
        let over_value = ["optMap", "optFlatMap"].contains(&name) && self.environment.has(Library::Optional);
        let (Some(Token::Name(variable)), Some(Token::Sign(","))) =
            (self.tokens.get(self.at), self.tokens.get(self.at + 1))
        else {
            return Ok(None);
        };
        if !over_items && !over_value {
            return Ok(None);
        }
        self.at += 2;
        let item = if over_items {
            self.item(of)?
        } else {
            self.call("value", Call::Member, std::slice::from_ref(of))?
        };
        self.bound.push((variable.clone(), item.clone()));
        let first = self.expression()?.kind;
        let second = if name == "map" && self.takes(",") { Some(self.expression()?.kind) } else { None };
        self.bound.pop();
        self.expects(")")?;
        Ok(Some(match (name, second) {
            ("map", Some(second)) => {
                self.wants_truth(&first)?;
                Type::list(second)
            }
            ("map", None) => Type::list(first),
            ("filter", _) => {
                self.wants_truth(&first)?;
                Type::list(item)
            }
            ("optMap", _) => Type::optional(first),
            ("optFlatMap", _) => {
                let any = self.bindings.open();
                let wanted = Type::optional(any);
                if !self.bindings.all_fit(std::slice::from_ref(&first), std::slice::from_ref(&wanted)) {
                    return Err("gives something that is not optional to `optFlatMap`".to_owned());
                }
                first
            }
            _ => {
                self.wants_truth(&first)?;
                Type::Bool
            }
        }))
    }

    /// What a list or mapping is gone through by.
    fn item(&mut self, of: &Type) -> Result<Type, String> {
        match self.bindings.resolved(of) {
            Type::List(inner) => Ok(*inner),
            Type::Map(inner) => Ok(inner.0),
            Type::Dyn => Ok(Type::Dyn),
            open @ Type::Open(_) => {
                self.bindings.all_fit(&[Type::Dyn], &[open]);
                Ok(Type::Dyn)
            }
            Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Null
            | Type::Duration
            | Type::Timestamp
            | Type::Object(_)
            | Type::Optional(_)
            | Type::Meta(_) => Err("goes through the items of what has none".to_owned()),
        }
    }

    /// Arguments up to the closing bracket.
    fn arguments(&mut self) -> Result<Vec<Type>, String> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?.kind);
            if !self.takes(",") {
                self.expects(")")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Result<Part, String> {
        if self.takes("(") {
            let part = self.expression()?;
            self.expects(")")?;
            return Ok(part);
        }
        if self.takes("[") {
            return self.list().map(Part::from);
        }
        if self.takes("{") {
            return self.mapping().map(Part::from);
        }
        let from_the_root = self.takes(".");
        let token = self.tokens.get(self.at).ok_or("ends too early")?;
        self.at += 1;
        match token {
            Token::Literal(_) if from_the_root => Err("has a point without a name after it".to_owned()),
            Token::Literal(kind) => Ok(kind.clone().into()),
            Token::Name(name) if self.takes("(") => self.function(name).map(Part::from),
            Token::Name(name) if name == "optional" && self.environment.has(Library::Optional) => {
                self.expects(".")?;
                let name = self.name().ok_or("has a point without a name after it")?;
                self.expects("(")?;
                let given = self.arguments()?;
                self.call(&format!("optional.{name}"), Call::Plain, &given).map(Part::from)
            }
            Token::Name(name) => self.known(name).map(Part::from),
            Token::Sign(sign) => Err(format!("has `{sign}` where a value belongs")),
        }
    }

    fn function(&mut self, name: &str) -> Result<Type, String> {
        if name == "has" {
            let part = self.expression()?;
            self.expects(")")?;
            return if part.is_field {
                Ok(Type::Bool)
            } else {
                Err("asks `has` of something that is no field".to_owned())
            };
        }
        let given = self.arguments()?;
        self.call(name, Call::Plain, &given)
    }

    /// What a name stands for.
    fn known(&self, name: &str) -> Result<Type, String> {
        if let Some((_, kind)) = self.bound.iter().rev().find(|(known, _)| known == name) {
            return Ok(kind.clone());
        }
        if let Some(kind) = self.environment.name(name) {
            return Ok(kind);
        }
        if TYPES.contains(&name) {
            return Ok(Type::Meta(Box::new(Type::Dyn)));
        }
        Err(format!("names `{name}`, which stands for nothing here"))
    }

    fn list(&mut self) -> Result<Type, String> {
        let mut items = None;
        while !self.takes("]") {
            if items.is_none() && self.takes(",") {
                self.expects("]")?;
                break;
            }
            let optional = self.takes_optional()?;
            let item = self.expression()?.kind;
            let item = if optional { self.unwrapped(&item)? } else { item };
            items = Some(self.bindings.joined(items, item));
            if !self.takes(",") {
                self.expects("]")?;
                break;
            }
        }
        let items = items.unwrap_or_else(|| self.bindings.open());
        Ok(Type::list(items))
    }

    fn mapping(&mut self) -> Result<Type, String> {
        let (mut keys, mut values) = (None, None);
        while !self.takes("}") {
            if keys.is_none() && self.takes(",") {
                self.expects("}")?;
                break;
            }
            let optional = self.takes_optional()?;
            let key = self.expression()?.kind;
            self.expects(":")?;
            let value = self.expression()?.kind;
            let value = if optional { self.unwrapped(&value)? } else { value };
            keys = Some(self.bindings.joined(keys, key));
            values = Some(self.bindings.joined(values, value));
            if !self.takes(",") {
                self.expects("}")?;
                break;
            }
        }
        let keys = keys.unwrap_or_else(|| self.bindings.open());
        let values = values.unwrap_or_else(|| self.bindings.open());
        Ok(Type::map(keys, values))
    }

    /// An item that is put in only if it is there.
    fn unwrapped(&mut self, item: &Type) -> Result<Type, String> {
        let item = self.bindings.resolved(item);
        if let Type::Optional(inner) = item {
            return Ok(*inner);
        }
        if item == Type::Dyn {
            Ok(item)
        } else {
            Err("has `?` before an item that is not optional".to_owned())
        }
    }
}
