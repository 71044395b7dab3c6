/// The OIDs of PostgreSQL's built-in types (`pg_type.dat`), which never change.
enum TypeID {
    static let bool: UInt32 = 16
    static let bytea: UInt32 = 17
    static let int8: UInt32 = 20
    static let int2: UInt32 = 21
    static let int4: UInt32 = 23
    static let text: UInt32 = 25
    static let json: UInt32 = 114
    static let float8: UInt32 = 701
    static let date: UInt32 = 1082
    static let timestamptz: UInt32 = 1184
    static let interval: UInt32 = 1186
    static let jsonb: UInt32 = 3802

    /// Whether a type's binary form is the text itself: `text`, `json`, `"char"`, `name`, `char(n)`, `varchar`,
    /// `unknown`.
    static func isTextual(_ type: UInt32) -> Bool {
        switch type {
        case text, json, 18, 19, 1042, 1043, 705: true
        default: false
        }
    }

    /// The array type of an element type.
    static func array(of element: UInt32) -> UInt32 {
        switch element {
        case bool: 1000
        case bytea: 1001
        case int2: 1005
        case int4: 1007
        case text: 1009
        case int8: 1016
        case float8: 1022
        case timestamptz: 1185
        default: fatalError("no arrays of type \(element) are sent")
        }
    }
}

/// PostgreSQL's epoch: it counts time from 1 January 2000.
enum PostgresEpoch {
    static let microsecondsAfter1970: Int64 = 946_684_800_000_000

    /// Converts from microseconds since 1970. The infinities stay as they are.
    static func encode(_ microseconds: Int64) -> Int64 {
        guard !isInfinite(microseconds) else { return microseconds }
        let (time, isBeforeAll) = microseconds.subtractingReportingOverflow(microsecondsAfter1970)
        return isBeforeAll ? .min + 1 : max(time, .min + 1)
    }

    /// Converts to microseconds since 1970. The last 30 of PostgreSQL's 294,276 years do not fit: they become the last
    /// time that fits.
    static func decode(_ microseconds: Int64) -> Int64 {
        guard !isInfinite(microseconds) else { return microseconds }
        let (time, isAfterAll) = microseconds.addingReportingOverflow(microsecondsAfter1970)
        return isAfterAll ? .max - 1 : min(time, .max - 1)
    }

    private static func isInfinite(_ microseconds: Int64) -> Bool {
        microseconds == .max || microseconds == .min
    }
}
