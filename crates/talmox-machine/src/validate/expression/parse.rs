//! The grammar of CEL, and of what kind results plainly are.

use super::tokens::{Token, tokens};
use super::{Environment, Kind};

/// Deeper than this nobody nests, and no expression may exhaust the stack.
const DEEPEST: usize = 64;

/// Operators from the loosest to the tightest.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">", "in"], &["+", "-"], &["*", "/", "%"]];

/// Macros whose first argument is a name of their own.
const BINDING: [&str; 5] = ["all", "exists", "exists_one", "filter", "map"];

/// The kind of a whole expression.
pub(super) fn kind_of(text: &str, environment: &Environment) -> Result<Kind, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0, bound: Vec::new(), environment };
    let kind = parser.expression()?;
    if parser.at == tokens.len() { Ok(kind) } else { Err("goes on where it should end".to_owned()) }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// Names that macros bind.
    bound: Vec<String>,
    environment: &'a Environment,
}

impl Parser<'_> {
    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn expects(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("lacks `{sign}`")) }
    }

    fn expression(&mut self) -> Result<Kind, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("is nested too deeply".to_owned());
        }
        let kind = self.binary(0)?;
        let kind = if self.takes("?") {
            truth(kind)?;
            let then = self.binary(0)?;
            self.expects(":")?;
            let otherwise = self.expression()?;
            if then == otherwise { then } else { Kind::Unknown }
        } else {
            kind
        };
        self.depth -= 1;
        Ok(kind)
    }

    fn binary(&mut self, level: usize) -> Result<Kind, String> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| self.takes(sign)) {
            let right = self.binary(level + 1)?;
            left = combined(sign, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Kind, String> {
        let mut negations = 0;
        while self.takes("!") {
            negations += 1;
        }
        let mut minuses = 0;
        while negations == 0 && self.takes("-") {
            minuses += 1;
        }
        let kind = self.member()?;
        if negations > 0 {
            truth(kind)?;
            return Ok(Kind::Bool);
        }
        match kind {
            Kind::Bool | Kind::Text | Kind::Uint | Kind::Other if minuses > 0 => {
                Err("has a minus before what is no number".to_owned())
            }
            Kind::Bool | Kind::Int | Kind::Uint | Kind::Double | Kind::Text | Kind::Other | Kind::Unknown => {
                Ok(kind)
            }
        }
    }

    fn member(&mut self) -> Result<Kind, String> {
        let mut kind = self.primary()?;
        loop {
            if self.takes(".") {
                self.takes("?");
                let Some(Token::Name(name)) = self.tokens.get(self.at) else {
                    return Err("has a point without a name after it".to_owned());
                };
                self.at += 1;
                if self.takes("(") {
                    self.arguments(BINDING.contains(&name.as_str()))?;
                }
                kind = Kind::Unknown;
            } else if self.takes("[") {
                self.takes("?");
                self.expression()?;
                self.expects("]")?;
                kind = Kind::Unknown;
            } else {
                return Ok(kind);
            }
        }
    }

    /// Arguments up to the closing bracket; a macro's first is a name.
    fn arguments(&mut self, binds: bool) -> Result<(), String> {
        let before = self.bound.len();
        if let (true, Some(Token::Name(name))) = (binds, self.tokens.get(self.at)) {
            self.bound.push(name.clone());
        }
        self.list(")")?;
        self.bound.truncate(before);
        Ok(())
    }

    fn list(&mut self, end: &str) -> Result<(), String> {
        while !self.takes(end) {
            self.expression()?;
            if !self.takes(",") {
                return self.expects(end);
            }
        }
        Ok(())
    }

    fn primary(&mut self) -> Result<Kind, String> {
        if self.takes("(") {
            let kind = self.expression()?;
            self.expects(")")?;
            return Ok(kind);
        }
        if self.takes("[") {
            return self.list("]").map(|()| Kind::Other);
        }
        if self.takes("{") {
            return self.mapping().map(|()| Kind::Other);
        }
        self.takes(".");
        let token = self.tokens.get(self.at).ok_or("ends too early")?;
        self.at += 1;
        match token {
            Token::Literal(kind) => Ok(*kind),
            Token::Name(name) if self.takes("(") => {
                if !self.environment.has_function(name) {
                    return Err(format!("calls `{name}`, which is no function here"));
                }
                self.arguments(false)?;
                Ok(result(name))
            }
            Token::Name(name) if self.bound.contains(name) => Ok(Kind::Unknown),
            Token::Name(name) => self
                .environment
                .name(name)
                .ok_or_else(|| format!("names `{name}`, which stands for nothing here")),
            Token::Sign(sign) => Err(format!("has `{sign}` where a value belongs")),
        }
    }

    fn mapping(&mut self) -> Result<(), String> {
        while !self.takes("}") {
            self.takes("?");
            self.expression()?;
            self.expects(":")?;
            self.expression()?;
            if !self.takes(",") {
                return self.expects("}");
            }
        }
        Ok(())
    }
}

/// What a function gives, where that is plain.
fn result(function: &str) -> Kind {
    match function {
        "bool" | "glob" | "has" | "matches" => Kind::Bool,
        "double" | "multiply_qos_vectors" => Kind::Double,
        "int" | "size" => Kind::Int,
        "uint" => Kind::Uint,
        "string" | "mac" => Kind::Text,
        _ => Kind::Unknown,
    }
}

fn truth(kind: Kind) -> Result<(), String> {
    match kind {
        Kind::Bool | Kind::Unknown => Ok(()),
        Kind::Int | Kind::Uint | Kind::Double | Kind::Text | Kind::Other => {
            Err("takes a value for true or false that is neither".to_owned())
        }
    }
}

fn combined(sign: &str, left: Kind, right: Kind) -> Result<Kind, String> {
    let differ = left != right && left != Kind::Unknown && right != Kind::Unknown;
    match sign {
        "&&" | "||" => {
            truth(left)?;
            truth(right)?;
            Ok(Kind::Bool)
        }
        "in" => Ok(Kind::Bool),
        "==" | "!=" | "<" | ">" | "<=" | ">=" if !differ => Ok(Kind::Bool),
        // A moment and a duration are of kinds that are not told apart here.
        _ if left == Kind::Other || right == Kind::Other => Ok(Kind::Unknown),
        _ if differ => {
            Err(format!("has values of different kinds beside `{sign}`: 10u is unsigned, 10 is not"))
        }
        _ if left == Kind::Unknown => Ok(right),
        _ => Ok(left),
    }
}
