//! Columns of record batches as buffers that numpy reads and writes; numbers are not copied.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, LargeBinaryArray, ListArray, OffsetSizeTrait,
    PrimitiveArray, StringArray, StructArray, downcast_dictionary_array, make_array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::error::wrong;
use crate::gil::Held;

/// Memory of a column, exported by the buffer protocol.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Memory(Buffer);

#[pymethods]
impl Memory {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().0.as_slice();
        let (at, length) = (bytes.as_ptr() as *mut c_void, bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `view` comes from Python; the object that it keeps alive owns the bytes, which
        // never change.
        let result = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at, length, 1, flags) };
        if result == 0 { Ok(()) } else { Err(PyBufferError::new_err("it is read-only")) }
    }
}

/// A column: its kind, its values, by row whether it is valid (None: all are), and the names that
/// the values index, or the column that they are offsets of.
pub type Parts<'py> = (String, Memory, Option<Memory>, Option<Bound<'py, PyAny>>);

/// Name and kind of each column, and whether it is nullable.
pub fn fields_of(schema: &Schema) -> Vec<(String, String, bool)> {
    let field = |f: &Arc<Field>| (f.name().clone(), kind_of(f.data_type()), f.is_nullable());
    schema.fields().iter().map(field).collect()
}

/// A type by its name in numpy; or `dictionary`, `string`, `timestamp` (ns), `list of` another.
fn kind_of(of: &DataType) -> String {
    match of {
        DataType::Boolean => "bool".into(),
        DataType::Dictionary(_, values) if is_text(values) => "dictionary".into(),
        DataType::List(inner) | DataType::LargeList(inner) => {
            format!("list of {}", kind_of(inner.data_type()))
        }
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => "timestamp".into(),
        DataType::Decimal128(..) | DataType::Decimal64(..) | DataType::Decimal32(..) => {
            "decimal".into()
        }
        text if is_text(text) => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytes".into(),
        DataType::Struct(fields) => {
            let member = |f: &Arc<Field>| format!("{} {}", f.name(), kind_of(f.data_type()));
            format!("struct of {}", fields.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string().to_lowercase(),
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub fn parts_of<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Parts<'py>> {
    let kind = kind_of(column.data_type());
    let unknown = || PyTypeError::new_err(format!("a column of {}", column.data_type()));
    if *column.data_type() == DataType::Null {
        let rows = column.len();
        return Ok((kind, rows_only(rows), Some(rows_only(rows)), None));
    }
    let column = as_numbers(column);
    let valid = column.nulls().filter(|nulls| nulls.null_count() > 0).map(|n| flags(n.inner()));
    let (values, extra) = match column.data_type() {
        DataType::Boolean => (flags(column.as_boolean().values()), None),
        DataType::Dictionary(..) | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let coded = named(&column).or_else(|| encoded(&column));
            let (codes, names) = coded.ok_or_else(unknown)?;
            return Ok((kind, codes, None, Some(names.into_pyobject(py)?.into_any())));
        }
        DataType::List(_) => lists(py, column.as_list::<i32>())?,
        DataType::LargeList(_) => lists(py, column.as_list::<i64>())?,
        DataType::Struct(fields) => {
            let members = fields.iter().zip(column.as_struct().columns());
            let members: PyResult<Vec<_>> = members
                .map(|(field, member)| Ok((field.name().clone(), parts_of(py, member)?)))
                .collect();
            (rows_only(column.len()), Some(members?.into_pyobject(py)?.into_any()))
        }
        DataType::Binary => (rows_only(column.len()), Some(binary(py, column.as_binary::<i32>()))),
        DataType::LargeBinary => {
            (rows_only(column.len()), Some(binary(py, column.as_binary::<i64>())))
        }
        DataType::BinaryView => {
            (rows_only(column.len()), Some(binary(py, column.as_binary_view())))
        }
        other if other.is_numeric() && other.primitive_width().is_some_and(|width| width <= 8) => {
            let data = column.to_data();
            let width = other.primitive_width().expect("numbers have a width");
            let values =
                data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
            (Memory(values), None)
        }
        _ => return Err(unknown()),
    };
    Ok((kind, values, valid, extra))
}

/// Times in ns and decimals as floats; any other column as it is.
fn as_numbers(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => as_ns(column, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => {
            as_ns(column, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => as_ns(column, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => as_ns(column, 1),
        DataType::Date32 => {
            let scaled = |day: i32| i64::from(day) * 86_400_000_000_000;
            Arc::new(column.as_primitive::<Date32Type>().unary::<_, Int64Type>(scaled))
        }
        DataType::Decimal128(_, scale) => {
            let by = 10f64.powi(i32::from(*scale));
            let scaled = |value: i128| value as f64 / by;
            Arc::new(column.as_primitive::<Decimal128Type>().unary::<_, Float64Type>(scaled))
        }
        _ => column.clone(),
    }
}

/// A placeholder for the values of columns that have none of their own.
fn rows_only(rows: usize) -> Memory {
    Memory(Buffer::from_vec(vec![0_u8; rows]))
}

fn binary<'py, 'a>(
    py: Python<'py>,
    rows: impl IntoIterator<Item = Option<&'a [u8]>>,
) -> Bound<'py, PyAny> {
    let rows = rows.into_iter().map(|row| PyBytes::new(py, row.unwrap_or_default()));
    PyList::new(py, rows.collect::<Vec<_>>()).expect("it knows its length").into_any()
}

/// One byte per row.
fn flags(bits: &BooleanBuffer) -> Memory {
    Memory(Buffer::from_vec(bits.iter().map(u8::from).collect::<Vec<u8>>()))
}

/// Timestamps in ns, from ticks of `by` ns.
fn as_ns(column: &ArrayRef, by: i64) -> ArrayRef {
    let data = column.to_data().into_builder().data_type(DataType::Int64).build();
    let ticks = make_array(data.expect("timestamps have 64 bits"));
    let scaled = |ticks: i64| ticks.saturating_mul(by);
    Arc::new(ticks.as_primitive::<Int64Type>().unary::<_, Int64Type>(scaled))
}

/// By row, the index of its name, -1 for null; and the names.
fn named(column: &ArrayRef) -> Option<(Memory, Vec<String>)> {
    let array: &dyn Array = column;
    downcast_dictionary_array!(
        array => codes_of(array),
        _ => None
    )
}

fn codes_of<K: ArrowDictionaryKeyType>(
    column: &DictionaryArray<K>,
) -> Option<(Memory, Vec<String>)> {
    let names = texts(column.values())?;
    let names: Vec<String> = names.map(|name| name.unwrap_or_default().to_owned()).collect();
    // A null among the names is null in the rows that refer to it.
    let values = column.values();
    let code = |key: Option<K::Native>| match key {
        Some(key) if !values.is_null(key.as_usize()) => key.as_usize() as i32,
        _ => -1,
    };
    if column.null_count() == 0 && values.null_count() == 0 && K::DATA_TYPE == DataType::Int32 {
        return Some((Memory(column.keys().values().inner().clone()), names));
    }
    let codes: Vec<i32> = column.keys().iter().map(code).collect();
    Some((Memory(Buffer::from_vec(codes)), names))
}

/// The same for a column whose rows hold the text itself.
fn encoded(column: &ArrayRef) -> Option<(Memory, Vec<String>)> {
    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<String, i32> = HashMap::new();
    let codes: Vec<i32> = texts(column)?
        .map(|text| {
            let Some(text) = text else { return -1 };
            known.get(text).copied().unwrap_or_else(|| {
                let code = names.len() as i32;
                known.insert(text.to_owned(), code);
                names.push(text.to_owned());
                code
            })
        })
        .collect();
    Some((Memory(Buffer::from_vec(codes)), names))
}

fn texts(column: &ArrayRef) -> Option<Box<dyn Iterator<Item = Option<&str>> + '_>> {
    Some(match column.data_type() {
        DataType::Utf8 => Box::new(column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => Box::new(column.as_string::<i64>().iter()),
        DataType::Utf8View => Box::new(column.as_string_view().iter()),
        _ => return None,
    })
}

/// The start of each row's list and the end of the last, and the column of the lists' content.
fn lists<'py, O: OffsetSizeTrait>(
    py: Python<'py>,
    column: &arrow_array::GenericListArray<O>,
) -> PyResult<(Memory, Option<Bound<'py, PyAny>>)> {
    let offsets: Vec<i64> = column.value_offsets().iter().map(|o| o.as_usize() as i64).collect();
    let inner = parts_of(py, column.values())?;
    Ok((Memory(Buffer::from_vec(offsets)), Some(inner.into_pyobject(py)?.into_any())))
}

/// The arrays of columns, each with its name and whether it is nullable.
pub fn named_arrays(columns: Vec<Bound<'_, PyAny>>) -> PyResult<(Vec<Field>, Vec<ArrayRef>)> {
    let named = columns.into_iter().map(|column| {
        let (name, nullable, parts): (String, bool, Bound<'_, PyAny>) = column.extract()?;
        let array = array_of(&parts)?;
        Ok((Field::new(name, array.data_type().clone(), nullable), array))
    });
    named.collect()
}

/// The array of a column in the form of `parts_of`, whatever Python object owns the memory.
pub fn array_of(parts: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    type Given<'py> = (String, PyBuffer<u8>, Option<PyBuffer<u8>>, Bound<'py, PyAny>);
    let (kind, values, valid, extra): Given<'_> = parts.extract()?;
    let values = memory(values)?;
    let valid = valid.map(memory).transpose()?.map(|bytes| NullBuffer::new(bits(&bytes)));
    match kind.as_str() {
        "bool" => Ok(Arc::new(BooleanArray::new(bits(&values), valid))),
        "dictionary" | "string" => {
            let names: Vec<String> = extra.extract()?;
            let codes = ScalarBuffer::<i32>::from(values);
            if kind == "string" {
                let mut texts = StringBuilder::with_capacity(codes.len(), 16 * codes.len());
                for code in codes.iter().copied() {
                    texts.append_option(usize::try_from(code).ok().and_then(|c| names.get(c)));
                }
                return Ok(Arc::new(texts.finish()));
            }
            let valid: NullBuffer = codes.iter().map(|code| *code >= 0).collect();
            let valid = Some(valid).filter(|valid| valid.null_count() > 0);
            let keys = PrimitiveArray::<Int32Type>::try_new(codes, valid).map_err(wrong)?;
            let names = Arc::new(StringArray::from_iter_values(names));
            Ok(Arc::new(DictionaryArray::try_new(keys, names).map_err(wrong)?))
        }
        "list" => {
            let inner = array_of(&extra.cast_into::<PyTuple>()?.into_any())?;
            let offsets: Vec<i32> =
                ScalarBuffer::<i64>::from(values).iter().map(|offset| *offset as i32).collect();
            let field = Arc::new(Field::new("item", inner.data_type().clone(), true));
            let offsets = OffsetBuffer::new(offsets.into());
            Ok(Arc::new(ListArray::try_new(field, offsets, inner, valid).map_err(wrong)?))
        }
        "struct" => {
            let (fields, arrays) = named_arrays(extra.extract()?)?;
            Ok(Arc::new(StructArray::try_new(fields.into(), arrays, valid).map_err(wrong)?))
        }
        "bytes" => {
            let rows: Vec<Option<Vec<u8>>> = extra.extract()?;
            Ok(Arc::new(rows.iter().map(Option::as_deref).collect::<LargeBinaryArray>()))
        }
        number => {
            let data_type = numbers_of(number)?;
            let width = data_type.primitive_width().expect("numbers have a width");
            let rows = values.len() / width;
            let data = ArrayData::builder(data_type).len(rows).add_buffer(values).nulls(valid);
            Ok(make_array(data.build().map_err(wrong)?))
        }
    }
}

fn numbers_of(kind: &str) -> PyResult<DataType> {
    use DataType::*;
    let known = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64];
    let named = known.into_iter().find(|known| kind_of(known) == kind);
    named.ok_or_else(|| PyTypeError::new_err(format!("a column of {kind}")))
}

fn bits(bytes: &Buffer) -> BooleanBuffer {
    BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0)
}

/// Memory owned by Python, which keeps it until the array is dropped.
fn memory(from: PyBuffer<u8>) -> PyResult<Buffer> {
    if !from.is_c_contiguous() {
        return Err(PyValueError::new_err("memory of a column is not contiguous"));
    }
    let (at, length) = (from.buf_ptr().cast::<u8>(), from.len_bytes());
    let at = NonNull::new(at).unwrap_or(NonNull::dangling());
    // SAFETY: the buffer's owner keeps `length` bytes mapped, and lives as long as the array.
    Ok(unsafe { Buffer::from_custom_allocation(at, length, Arc::new(Owner(Held::new(from)))) })
}

struct Owner(#[expect(dead_code, reason = "it is kept for its drop")] Held<PyBuffer<u8>>);

// A reader of the memory cannot access its owner.
impl std::panic::RefUnwindSafe for Owner {}
