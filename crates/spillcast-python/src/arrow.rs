//! Exchanges record batches with Python through the Arrow PyCapsule interface, without copies.

use std::mem;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader,
    StructArray,
};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::columns::{Parts, fields_of, named_arrays, parts_of};
use crate::error::wrong;
use crate::gil::{Held, with_gil};

/// Columns of rows. `pyarrow.record_batch(table)` and any other Arrow reader accepts it.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Table(pub RecordBatch);

/// Capsules of a schema and an array.
pub type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

#[pymethods]
impl Table {
    /// The rows as a pair of capsules: schema and array.
    #[pyo3(signature = (requested_schema=None))]
    pub fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        // The interface allows a producer to leave a cast to its consumer.
        let _ = requested_schema;
        let rows = StructArray::from(self.0.clone());
        let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) =
            to_ffi(&rows.to_data()).map_err(wrong)?;
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }

    /// The rows as a stream of one batch, for readers of tables.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        stream_capsule(py, batches)
    }

    /// The batches of an object with `__arrow_c_array__` or `__arrow_c_stream__`.
    #[staticmethod]
    fn taken(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Table>> {
        if rows.hasattr("__arrow_c_array__")? {
            return Ok(vec![Table(import(rows)?)]);
        }
        let capsule: Bound<'_, PyCapsule> = rows.call_method0("__arrow_c_stream__")?.extract()?;
        let at = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: by its name the capsule holds a stream, which the reader moves out of it.
        let reader = unsafe { RecordBatchStreamReader::from_raw(at.cast().as_ptr()) };
        let batches: Result<Vec<_>, _> = reader.map_err(wrong)?.collect();
        Ok(batches.map_err(wrong)?.into_iter().map(Table).collect())
    }

    /// A table of columns in the form of `column`, each with its name and whether it is nullable.
    #[staticmethod]
    fn of(columns: Vec<Bound<'_, PyAny>>, rows: usize) -> PyResult<Table> {
        let (fields, arrays) = named_arrays(columns)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        Ok(Table(RecordBatch::try_new_with_options(schema, arrays, &options).map_err(wrong)?))
    }

    /// Name and kind of each column, and whether it is nullable.
    fn fields(&self) -> Vec<(String, String, bool)> {
        fields_of(self.0.schema_ref())
    }

    /// The column of this name. KeyError if it is missing, TypeError if numpy has no such kind.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Parts<'py>> {
        let column = self.0.column_by_name(name);
        parts_of(py, column.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?)
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()).map_err(wrong)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

/// Tables of the same columns as a stream that can be read once: `next()` returns the next table,
/// or None at the end.
#[pyclass(frozen, module = "spillcast._core")]
pub struct Stream {
    schema: SchemaRef,
    next: Held<Py<PyAny>>,
}

#[pymethods]
impl Stream {
    #[new]
    fn new(like: &Table, next: Py<PyAny>) -> Stream {
        Stream { schema: like.0.schema(), next: Held::new(next) }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let next = Held::new(self.next.clone_ref(py));
        stream_capsule(py, Stream { schema: self.schema.clone(), next })
    }
}

/// A capsule that produces batches on request.
fn stream_capsule<'py>(
    py: Python<'py>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let table = |py: Python<'_>| -> PyResult<Option<RecordBatch>> {
            let table: Option<PyRef<'_, Table>> = self.next.bind(py).call0()?.extract()?;
            Ok(table.map(|table| table.0.clone()))
        };
        // The reader of an error may not hold the GIL, so it gets the text.
        let next = with_gil(|py| table(py).map_err(|error| error.to_string()));
        let next = next.unwrap_or_else(|| Err("Python has ended".to_owned()));
        next.map_err(|error| ArrowError::ExternalError(error.into())).transpose()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Takes the rows of any object with `__arrow_c_array__`.
pub fn import(rows: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        rows.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: the names of the capsules show that they hold a schema and an array. The capsule
    // keeps the schema; the array is moved out of it, as the interface requires.
    let data = unsafe {
        let array = mem::replace(&mut *array.as_ptr(), FFI_ArrowArray::empty());
        from_ffi(array, schema.as_ref())
    };
    Ok(RecordBatch::from(StructArray::from(data.map_err(wrong)?)))
}

/// The column of this name as converted by `of`; ValueError if it is missing, or for None.
pub fn column<'a, T>(
    batch: &'a RecordBatch,
    name: &str,
    of: impl FnOnce(&'a ArrayRef) -> Option<T>,
) -> PyResult<T> {
    let wrong = || PyValueError::new_err(format!("the column {name} is missing or invalid"));
    batch.column_by_name(name).and_then(of).ok_or_else(wrong)
}

/// The numbers of a column without nulls.
pub fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> PyResult<&'a [T::Native]> {
    let complete = |array: &'a ArrayRef| {
        array.as_primitive_opt::<T>().filter(|numbers| numbers.null_count() == 0)
    };
    Ok(column(batch, name, complete)?.values())
}
