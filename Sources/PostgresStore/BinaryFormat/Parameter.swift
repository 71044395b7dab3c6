/// A value to bind to a statement. It is sent in binary, with its type, so that the server converts it if the statement
/// needs another type of the same kind.
///
/// Nil is SQL's null. Times are microseconds since 1970; `Int64.max` and `Int64.min` are PostgreSQL's infinities.
package enum Parameter: Sendable {
    case bool(Bool?)
    case int2(Int16?)
    case int4(Int32?)
    case int8(Int64?)
    case float8(Double?)
    case text(String?)
    case bytea([UInt8]?)
    case timestamptz(Int64?)
    case interval(Duration?)
    case date(CalendarDay?)

    case boolArray([Bool])
    case int2Array([Int16])
    case int4Array([Int32])
    case int8Array([Int64])
    case float8Array([Double])
    case textArray([String])
    case byteaArray([[UInt8]])
    case timestamptzArray([Int64])

    case optionalInt8Array([Int64?])
    case optionalTextArray([String?])
    case optionalByteaArray([[UInt8]?])
    case optionalTimestamptzArray([Int64?])
}
