package import FoundationEssentials

/// One row of a result. Columns are read by the names that the statement gives them, in any order.
///
/// Reading a column that the statement does not return, a type that the column does not have, or a null without
/// `optional…` is a mistake in this program, not in the data: statement and reader stand side by side. It ends the
/// program with a message that names the statement and the column.
package struct Row {
    let rows: Rows
    let index: Int

    package func isNull(_ name: StaticString) -> Bool { rows.isNull(index, rows.column(name)) }

    package func bool(_ name: StaticString) -> Bool { integer(rows.column(name), TypeID.bool, as: UInt8.self) != 0 }
    package func int2(_ name: StaticString) -> Int16 { integer(rows.column(name), TypeID.int2) }
    package func int4(_ name: StaticString) -> Int32 { integer(rows.column(name), TypeID.int4) }
    package func int8(_ name: StaticString) -> Int64 { integer(rows.column(name), TypeID.int8) }
    package func float8(_ name: StaticString) -> Double { float8(rows.column(name)) }
    package func date(_ name: StaticString) -> CalendarDay {
        CalendarDay(daysSince2000: integer(rows.column(name), TypeID.date))
    }

    /// A count: an `int8`, as `count` and `sum` return it.
    package func count(_ name: StaticString) -> Int { Int(int8(name)) }

    /// Microseconds since 1970; `Int64.max` and `Int64.min` are PostgreSQL's infinities.
    package func timestamptz(_ name: StaticString) -> Int64 { timestamptz(rows.column(name)) }

    /// A `timestamptz` as a date.
    package func time(_ name: StaticString) -> Date { time(rows.column(name)) }

    /// Text of any kind, including `json`, `jsonb`, names and enumerations.
    package func text(_ name: StaticString) -> String { text(rows.column(name)) }

    /// A value of an enumeration that is stored as text or as a number. An unknown value is a mistake in this program,
    /// too: if an older worker must run with a newer schema, its reader leaves the row out.
    package func value<Value: RawRepresentable<String>>(_ name: StaticString, as type: Value.Type) -> Value {
        known(name, text(name), as: type)
    }
    package func value<Value: RawRepresentable<Int16>>(_ name: StaticString, as type: Value.Type) -> Value {
        known(name, int2(name), as: type)
    }

    /// A copy of a `bytea`.
    package func bytes(_ name: StaticString) -> [UInt8] { bytes(rows.column(name)) }

    package func optionalInt2(_ name: StaticString) -> Int16? { optional(name) { integer($0, TypeID.int2) } }
    package func optionalInt4(_ name: StaticString) -> Int32? { optional(name) { integer($0, TypeID.int4) } }
    package func optionalInt8(_ name: StaticString) -> Int64? { optional(name) { integer($0, TypeID.int8) } }
    package func optionalFloat8(_ name: StaticString) -> Double? { optional(name, float8) }
    package func optionalTime(_ name: StaticString) -> Date? { optional(name, time) }
    package func optionalText(_ name: StaticString) -> String? { optional(name, text) }
    package func optionalBytes(_ name: StaticString) -> [UInt8]? { optional(name, bytes) }

    // MARK: By position

    func optional<Value>(_ name: StaticString, _ read: (Int) -> Value) -> Value? {
        let column = rows.column(name)
        return rows.isNull(index, column) ? nil : read(column)
    }

    private func known<Value: RawRepresentable>(
        _ name: StaticString, _ stored: Value.RawValue, as type: Value.Type
    ) -> Value {
        guard let value = Value(rawValue: stored) else {
            fatalError("column \(name) of \(rows.task) is \(stored), which is no \(type) of this version")
        }
        return value
    }

    private func float8(_ column: Int) -> Double { Double(bitPattern: integer(column, TypeID.float8)) }

    private func timestamptz(_ column: Int) -> Int64 { PostgresEpoch.decode(integer(column, TypeID.timestamptz)) }

    private func time(_ column: Int) -> Date { Date(timeIntervalSince1970: Double(timestamptz(column)) / 1_000_000) }

    private func text(_ column: Int) -> String {
        let type = rows.type(of: column)
        // Types that are not built into PostgreSQL are enumerations and domains over text.
        precondition(type >= 16384 || type == TypeID.jsonb || TypeID.isTextual(type), mismatch(column, "text"))
        let field = unsafe field(column, type)
        // A jsonb value begins with the version of its format.
        return unsafe String(decoding: type == TypeID.jsonb ? field.dropFirst() : field[...], as: UTF8.self)
    }

    private func bytes(_ column: Int) -> [UInt8] { unsafe Array(field(column, TypeID.bytea)) }

    private func integer<Integer: FixedWidthInteger>(
        _ column: Int, _ type: UInt32, as: Integer.Type = Integer.self
    ) -> Integer {
        let field = unsafe field(column, type, width: MemoryLayout<Integer>.size)
        return unsafe Integer(bigEndian: field.loadUnaligned(as: Integer.self))
    }

    /// The bytes of a field that is not null and has this type.
    func field(_ column: Int, _ type: UInt32, width: Int? = nil) -> UnsafeRawBufferPointer {
        guard rows.type(of: column) == type else { fatalError(mismatch(column, "type \(type)")) }
        guard !rows.isNull(index, column) else { fatalError("column \(rows.name(of: column)) of \(rows.task) is null") }
        let field = unsafe rows.bytes(index, column)
        guard width == nil || width == field.count else { fatalError(mismatch(column, "\(width ?? 0) bytes")) }
        return unsafe field
    }

    func mismatch(_ column: Int, _ wanted: String) -> String {
        """
        column \(rows.name(of: column)) of \(rows.task) is read as \(wanted) but has type \(rows.type(of: column)); \
        cast it in the statement
        """
    }
}

extension Rows: RandomAccessCollection {
    package var startIndex: Int { 0 }
    package var endIndex: Int { rowCount }

    package subscript(position: Int) -> Row {
        guard indices.contains(position) else {
            fatalError("\(task) returned \(count) rows, there is no row \(position)")
        }
        return Row(rows: self, index: position)
    }
}

extension Rows {
    /// The row of a statement that always returns one.
    /// - Throws: ``PostgresError/noRow(_:)`` if it returned none.
    package func one() throws(PostgresError) -> Row {
        guard let row = first else { throw .noRow(task) }
        return row
    }
}
