//! A column of whole numbers by constants, as a database reckons: whole numbers stay whole but for
//! `/`, and compare as what they are.

/// One step of `column / 1e6 - 5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub operator: Operator,
    pub by: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    /// Without what is behind the point.
    WholeOver,
    Rest,
}

impl Operator {
    pub fn of_sign(sign: &str) -> Option<Operator> {
        Some(match sign {
            "+" => Operator::Plus,
            "-" => Operator::Minus,
            "*" => Operator::Times,
            "/" => Operator::Over,
            "//" => Operator::WholeOver,
            "%" => Operator::Rest,
            _ => return None,
        })
    }

    pub fn commutes(self) -> bool {
        matches!(self, Operator::Plus | Operator::Times)
    }
}

/// A number by its type: what is whole, what is written with a point, or with an exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i128),
    /// Has arithmetic of its own, which is not done here.
    Decimal(f64),
    Double(f64),
}

impl Value {
    pub fn as_double(self) -> f64 {
        match self {
            Value::Whole(value) => value as f64,
            Value::Decimal(value) | Value::Double(value) => value,
        }
    }

    /// None for what is not done here, such as dividing by nought.
    pub fn with(self, operator: Operator, by: Value) -> Option<Value> {
        use Operator::*;
        let double = |value| Some(Value::Double(value));
        match (operator, self, by) {
            (Over, ..) if by.as_double() != 0.0 => double(self.as_double() / by.as_double()),
            (Over, ..) => None,
            (_, Value::Whole(value), Value::Whole(by)) => Some(Value::Whole(match operator {
                Plus => value.saturating_add(by),
                Minus => value.saturating_sub(by),
                Times => value.saturating_mul(by),
                WholeOver => value.checked_div(by)?,
                _ => value.checked_rem(by)?,
            })),
            (Plus | Minus | Times, Value::Double(_), _)
            | (Plus | Minus | Times, Value::Whole(_), Value::Double(_)) => {
                let (value, by) = (self.as_double(), by.as_double());
                double(match operator {
                    Plus => value + by,
                    Minus => value - by,
                    _ => value * by,
                })
            }
            _ => None,
        }
    }

    pub fn compares(self, sign: Sign, with: f64) -> bool {
        match (self, sign) {
            (Value::Whole(value), _) => {
                let (low, high) = sign.whole_range(with);
                (low..=high).contains(&value)
            }
            (_, Sign::Equal) => self.as_double() == with,
            (_, Sign::Below) => self.as_double() < with,
            (_, Sign::AtMost) => self.as_double() <= with,
            (_, Sign::Above) => self.as_double() > with,
            (_, Sign::AtLeast) => self.as_double() >= with,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Equal,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Sign {
    /// The sign and whether it is negated.
    pub fn of_text(text: &str) -> Option<(Sign, bool)> {
        Some(match text {
            "=" | "==" => (Sign::Equal, false),
            "<>" | "!=" => (Sign::Equal, true),
            "<" => (Sign::Below, false),
            "<=" => (Sign::AtMost, false),
            ">" => (Sign::Above, false),
            ">=" => (Sign::AtLeast, false),
            _ => return None,
        })
    }

    /// The one that says the same of both sides exchanged.
    pub fn turned(self) -> Sign {
        match self {
            Sign::Equal => Sign::Equal,
            Sign::Below => Sign::Above,
            Sign::AtMost => Sign::AtLeast,
            Sign::Above => Sign::Below,
            Sign::AtLeast => Sign::AtMost,
        }
    }

    /// The whole numbers that compare so with a value; none where the first is above the second.
    pub fn whole_range(self, with: f64) -> (i128, i128) {
        let (floor, ceil) = (with.floor() as i128, with.ceil() as i128);
        match self {
            Sign::Below => (i128::MIN, ceil - 1),
            Sign::AtMost => (i128::MIN, floor),
            Sign::Above => (floor + 1, i128::MAX),
            Sign::AtLeast => (ceil, i128::MAX),
            // None where the value is not whole.
            Sign::Equal => (ceil, floor),
        }
    }
}
