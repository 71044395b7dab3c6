/// One row of a result. Columns are counted from 0.
///
/// To ask for a column as another type than the statement returns, or for a null without `optional…`, is a mistake in this
/// program, not in the data: statement and reader stand beside each other. It ends the program with a sentence that says where.
package struct Row {
    let rows: Rows
    let index: Int

    package func isNull(_ column: Int) -> Bool { rows.isNull(index, column) }

    package func bool(_ column: Int) -> Bool { integer(column, TypeID.bool, as: UInt8.self) != 0 }
    package func int2(_ column: Int) -> Int16 { integer(column, TypeID.int2) }
    package func int4(_ column: Int) -> Int32 { integer(column, TypeID.int4) }
    package func int8(_ column: Int) -> Int64 { integer(column, TypeID.int8) }
    package func float8(_ column: Int) -> Double { Double(bitPattern: integer(column, TypeID.float8)) }
    package func uuid(_ column: Int) -> UInt128 { integer(column, TypeID.uuid) }
    package func date(_ column: Int) -> CalendarDay { CalendarDay(daysSince2000: integer(column, TypeID.date)) }

    /// Microseconds since 1970; `Int64.max` and `Int64.min` are PostgreSQL's infinities.
    package func timestamptz(_ column: Int) -> Int64 {
        PostgresEpoch.decode(integer(column, TypeID.timestamptz))
    }

    /// A month counts as 30 days, a day as 24 hours, as in `extract(epoch from …)`.
    package func interval(_ column: Int) -> Duration {
        let field = unsafe field(column, TypeID.interval, width: 16)
        let microseconds = unsafe Int64(bigEndian: field.loadUnaligned(as: Int64.self))
        let days = unsafe Int32(bigEndian: field.loadUnaligned(fromByteOffset: 8, as: Int32.self))
        let months = unsafe Int32(bigEndian: field.loadUnaligned(fromByteOffset: 12, as: Int32.self))
        return .microseconds(microseconds) + .seconds(86400 * (Int64(days) + 30 * Int64(months)))
    }

    /// Text of any kind: also `json`, `jsonb`, names and enumerations.
    package func text(_ column: Int) -> String {
        let type = rows.type(of: column)
        // Types that are not PostgreSQL's own are enumerations and domains over text.
        precondition(type >= 16384 || type == TypeID.jsonb || TypeID.textual.contains(type), mismatch(column, "text"))
        let field = unsafe field(column, type)
        // In front of jsonb there is the version of its format.
        return unsafe String(decoding: type == TypeID.jsonb ? field.dropFirst() : field[...], as: UTF8.self)
    }

    /// A copy of a `bytea`, or of the bytes of a text.
    package func bytes(_ column: Int) -> [UInt8] {
        unsafe Array(field(column, rows.type(of: column)))
    }

    /// Lends the bytes of a `bytea` without copying them.
    package func withBytes<Result>(_ column: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        let field = unsafe field(column, TypeID.bytea)
        return unsafe body(Span(_unsafeBytes: field))
    }

    package func optionalBool(_ column: Int) -> Bool? { isNull(column) ? nil : bool(column) }
    package func optionalInt2(_ column: Int) -> Int16? { isNull(column) ? nil : int2(column) }
    package func optionalInt4(_ column: Int) -> Int32? { isNull(column) ? nil : int4(column) }
    package func optionalInt8(_ column: Int) -> Int64? { isNull(column) ? nil : int8(column) }
    package func optionalFloat8(_ column: Int) -> Double? { isNull(column) ? nil : float8(column) }
    package func optionalUUID(_ column: Int) -> UInt128? { isNull(column) ? nil : uuid(column) }
    package func optionalDate(_ column: Int) -> CalendarDay? { isNull(column) ? nil : date(column) }
    package func optionalTimestamptz(_ column: Int) -> Int64? { isNull(column) ? nil : timestamptz(column) }
    package func optionalInterval(_ column: Int) -> Duration? { isNull(column) ? nil : interval(column) }
    package func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }
    package func optionalBytes(_ column: Int) -> [UInt8]? { isNull(column) ? nil : bytes(column) }

    // MARK: Fields

    /// The bytes of a field that is there and of this type.
    func field(_ column: Int, _ type: UInt32, width: Int? = nil) -> UnsafeRawBufferPointer {
        precondition(rows.type(of: column) == type, mismatch(column, "type \(type)"))
        precondition(!isNull(column), "column \(column) of \(rows.task) is null")
        let field = unsafe rows.bytes(index, column)
        precondition(width == nil || width == field.count, mismatch(column, "\(width ?? 0) bytes"))
        return unsafe field
    }

    func mismatch(_ column: Int, _ wanted: String) -> String {
        "column \(column) of \(rows.task) is read as \(wanted) but has type \(rows.type(of: column)); cast it in the statement"
    }

    private func integer<Integer: FixedWidthInteger>(
        _ column: Int, _ type: UInt32, as: Integer.Type = Integer.self
    ) -> Integer {
        let field = unsafe field(column, type, width: MemoryLayout<Integer>.size)
        return unsafe Integer(bigEndian: field.loadUnaligned(as: Integer.self))
    }
}
