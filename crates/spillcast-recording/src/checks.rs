//! Rules for the values of a column in any file, whatever wrote it.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch, downcast_integer_array};
use arrow_schema::DataType;

/// Whether a column may hold nulls, and its smallest and largest valid numbers.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub nullable: bool,
    pub least: i64,
    pub greatest: i64,
}

/// Fails with the name of the first column that breaks its rule; absent columns are ignored.
pub fn check(batch: &RecordBatch, rules: &[Rule]) -> Result<(), String> {
    rules.iter().try_for_each(|rule| match batch.column_by_name(&rule.name) {
        Some(column) => rule.check(column),
        None => Ok(()),
    })
}

impl Rule {
    fn check(&self, column: &dyn Array) -> Result<(), String> {
        let nulls = column.null_count();
        if nulls > 0 && !self.nullable {
            let rows = if nulls == 1 { "row" } else { "rows" };
            return Err(format!("{} is empty in {} {rows}", self.name, separated(nulls as i128)));
        }
        match column.data_type() {
            DataType::List(_) => self.items().check(column.as_list::<i32>().values()),
            DataType::LargeList(_) => self.items().check(column.as_list::<i64>().values()),
            DataType::Struct(fields) => {
                let members = fields.iter().zip(column.as_struct().columns());
                members.into_iter().try_for_each(|(field, member)| {
                    let name = format!("{}.{}", self.name, field.name());
                    Rule { name, nullable: true, ..self.clone() }.check(member)
                })
            }
            DataType::Float32 => self.fractions::<Float32Type>(column),
            DataType::Float64 => self.fractions::<Float64Type>(column),
            _ => downcast_integer_array!(column => self.whole(column), _ => Ok(())),
        }
    }

    fn items(&self) -> Rule {
        Rule { nullable: false, ..self.clone() }
    }

    fn whole<N: ArrowPrimitiveType>(&self, column: &PrimitiveArray<N>) -> Result<(), String>
    where
        N::Native: Into<i128>,
    {
        let Some((lower, upper)) = ends(column) else { return Ok(()) };
        let (lower, upper) = (lower.into(), upper.into());
        let (least, greatest) = (i128::from(self.least), i128::from(self.greatest));
        if lower >= least && upper <= greatest {
            return Ok(());
        }
        Err(self.outside(&separated(if lower < least { lower } else { upper }), lower < least))
    }

    fn fractions<N: ArrowPrimitiveType>(&self, column: &dyn Array) -> Result<(), String>
    where
        N::Native: Into<f64>,
    {
        let values = column.as_primitive::<N>();
        let mut lower = f64::INFINITY;
        let mut upper = f64::NEG_INFINITY;
        for value in values.iter().flatten().map(Into::into) {
            if !f64::is_finite(value) {
                return Err(format!("{} is not finite in some row", self.name));
            }
            lower = lower.min(value);
            upper = upper.max(value);
        }
        let is_low = lower < self.least as f64;
        if is_low || upper > self.greatest as f64 {
            return Err(self.outside(&format!("{}", if is_low { lower } else { upper }), is_low));
        }
        Ok(())
    }

    fn outside(&self, value: &str, is_low: bool) -> String {
        let rule = if is_low && self.least == 0 { ", not 0 or more" } else { "" };
        format!("{} is {value} in some row{rule}", self.name)
    }
}

/// The smallest and the largest number; None if all are null.
fn ends<N: ArrowPrimitiveType>(column: &PrimitiveArray<N>) -> Option<(N::Native, N::Native)> {
    let wider = |(lower, upper): (N::Native, N::Native), value: N::Native| {
        let lower = if value < lower { value } else { lower };
        (lower, if value > upper { value } else { upper })
    };
    if column.null_count() == 0 {
        // Checking the validity of each row would take several times as long.
        let first = *column.values().first()?;
        return Some(column.values().iter().copied().fold((first, first), wider));
    }
    let mut valid = column.iter().flatten();
    let first = valid.next()?;
    Some(valid.fold((first, first), wider))
}

/// The number with a comma between groups of three digits.
fn separated(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt64Array};

    use super::*;

    const RULE: (i64, i64) = (0, 1 << 53);

    fn checked(column: ArrayRef, nullable: bool) -> Result<(), String> {
        let (least, greatest) = RULE;
        let rule = Rule { name: "bytes".into(), nullable, least, greatest };
        check(&RecordBatch::try_from_iter([("bytes", column)]).unwrap(), &[rule])
    }

    #[test]
    fn numbers_are_within_bounds_whether_others_are_null_or_not() {
        let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        assert!(checked(column(vec![Some(0), Some(1 << 53)]), false).is_ok());
        assert!(checked(column(vec![None, None]), true).is_ok());
        assert!(checked(column(vec![Some(3), None]), false).unwrap_err().contains("1 row"));
        assert!(
            checked(column(vec![Some(3), None, Some(-1234)]), true).unwrap_err().contains("-1,234")
        );
        assert!(checked(column(vec![Some(3), Some(-1)]), true).unwrap_err().contains("-1"));
        assert!(checked(column(vec![Some((1 << 53) + 1)]), true).is_err());
        assert!(checked(Arc::new(UInt64Array::from(vec![u64::MAX])), true).is_err());
    }

    #[test]
    fn fractions_are_finite() {
        let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        assert!(checked(column(vec![0.5]), true).is_ok());
        assert!(checked(column(vec![]), true).is_ok());
        for wrong in [f64::NAN, f64::INFINITY, -0.5] {
            assert!(checked(column(vec![0.5, wrong]), true).is_err(), "{wrong}");
        }
    }
}
