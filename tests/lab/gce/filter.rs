//! Google's filter expressions, as far as they are imitated: comparisons of a label, the name or the
//! status, alone or each in parentheses, with or without AND between. All else is refused.

use super::{instance::Instance, refusal::Refusal, schema::matches};

/// A filter that was understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Term>);

#[derive(Debug, PartialEq, Eq)]
struct Term {
    field: Field,
    operator: Operator,
    value: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Field {
    Label(String),
    Name,
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Is,
    IsNot,
    Has,
    IsSet,
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// One that is not understood, in Google's words.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let refused = || Refusal::invalid("filter", text, "Invalid list filter expression.");
        let mut terms = Vec::new();
        let mut rest = text.trim();
        if !rest.starts_with('(') {
            return match term(rest) {
                Some(term) => Ok(Self(vec![term])),
                None => Err(refused()),
            };
        }
        while !rest.is_empty() {
            let inner = rest.strip_prefix('(').ok_or_else(refused)?;
            let (inside, after) = inner.split_once(')').ok_or_else(refused)?;
            terms.push(term(inside).ok_or_else(refused)?);
            rest = after.trim_start();
            if let Some(after) = rest.strip_prefix("AND ") {
                rest = after.trim_start();
                if rest.is_empty() {
                    return Err(refused());
                }
            }
        }
        Ok(Self(terms))
    }

    /// Whether an instance in `status` is one of those asked for.
    pub fn takes(&self, instance: &Instance, status: &str) -> bool {
        self.0.iter().all(|term| {
            let given = match &term.field {
                Field::Label(key) => instance.label(key),
                Field::Name => Some(instance.name.as_str()),
                Field::Status => Some(status),
            };
            match term.operator {
                Operator::Is => given == Some(&term.value),
                Operator::IsNot => given != Some(&term.value),
                Operator::Has => given.is_some_and(|given| given.contains(&term.value)),
                Operator::IsSet => given.is_some(),
            }
        })
    }
}

fn term(text: &str) -> Option<Term> {
    let text = text.trim();
    let at = text.find(['=', '!', ':', '<', '>'])?;
    let (field, rest) = text.split_at(at);
    let (operator, value) = if let Some(value) = rest.strip_prefix("!=") {
        (Operator::IsNot, value)
    } else if let Some(value) = rest.strip_prefix('=') {
        (Operator::Is, value)
    } else {
        (Operator::Has, rest.strip_prefix(':')?)
    };
    let (operator, value) = match (operator, value.trim()) {
        (Operator::Has, "*") => (Operator::IsSet, String::new()),
        (operator, value) => (operator, literal(value)?),
    };
    let field = match field.trim() {
        "name" => Field::Name,
        "status" => Field::Status,
        field => {
            let key = field.strip_prefix("labels.")?;
            let key = key
                .strip_prefix('"')
                .map_or(Some(key), |k| k.strip_suffix('"'))?;
            if !matches(r"[\p{Ll}\p{Lo}\p{N}_-]+", key) {
                return None;
            }
            Field::Label(key.to_owned())
        }
    };
    Some(Term {
        field,
        operator,
        value,
    })
}

/// A word, or anything in double quotes. Wildcards are not imitated.
fn literal(text: &str) -> Option<String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let inside = quoted.strip_suffix('"')?;
        return (!inside.contains(['"', '\\', '*'])).then(|| inside.to_owned());
    }
    matches(r"[\p{L}\p{N}_./-]+", text).then(|| text.to_owned())
}
