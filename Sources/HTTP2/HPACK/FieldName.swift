/// A field name as a small number, so that fields can be distinguished without comparing text.
///
/// The first numbers are the names HTTP/2 itself has rules for. From `firstOfApplication` on they belong to the owner
/// of the connection, which names them in `FieldNames`. Every other name is `.other`; only its text identifies it.
package struct FieldName: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let other = FieldName(rawValue: 0)
    package static let method = FieldName(rawValue: 1)
    package static let scheme = FieldName(rawValue: 2)
    package static let authority = FieldName(rawValue: 3)
    package static let path = FieldName(rawValue: 4)
    package static let status = FieldName(rawValue: 5)
    package static let contentLength = FieldName(rawValue: 6)
    package static let te = FieldName(rawValue: 7)
    package static let connection = FieldName(rawValue: 8)
    package static let keepAlive = FieldName(rawValue: 9)
    package static let proxyConnection = FieldName(rawValue: 10)
    package static let transferEncoding = FieldName(rawValue: 11)
    package static let upgrade = FieldName(rawValue: 12)

    package static let firstOfApplication = 13

    /// The number of the name at `index` of the list given to `FieldNames`.
    package init(application index: Int) {
        self.init(rawValue: UInt8(Self.firstOfApplication + index))
    }

    /// Fields that belong to HTTP/1.1 connections and make an HTTP/2 message malformed (RFC 9113 §8.2.2).
    var isConnectionSpecific: Bool { rawValue >= Self.connection.rawValue && rawValue <= Self.upgrade.rawValue }

    static let ownTexts = [
        "", ":method", ":scheme", ":authority", ":path", ":status", "content-length", "te", "connection", "keep-alive",
        "proxy-connection", "transfer-encoding", "upgrade",
    ]
}

/// The names that a connection knows by number. All connections of a kind share one object.
package final class FieldNames: Sendable {
    private let texts: [[UInt8]]
    /// A hash table of the numbers with open addressing; 0 is a free slot.
    private let slots: [UInt8]
    /// The number of each name of the static table, by its index; index 0 does not exist.
    let ofStaticTable: [FieldName]
    /// The first static index with the name of that number, or 0.
    private let staticIndices: [Int]

    /// - Parameter application: the names `FieldName(application: 0)`, `…(application: 1)` … stand for, in lower case.
    package init(application: [String] = []) {
        let texts = (FieldName.ownTexts + application).map { Array($0.utf8) }
        precondition(texts.count <= 128, "A connection knows at most 128 names by number.")
        var slots = [UInt8](repeating: 0, count: 512)
        for number in 1..<texts.count {
            let text = texts[number]
            var slot = Self.hash(text.span)
            while slots[slot] != 0 { slot = (slot + 1) & 511 }
            slots[slot] = UInt8(number)
        }
        self.texts = texts
        self.slots = slots
        let names = StaticTable.names.map { name in Self.number(of: name.span, texts, slots) }
        ofStaticTable = names
        staticIndices = texts.indices.map { number in
            number == 0 ? 0 : names.firstIndex(of: FieldName(rawValue: UInt8(number))) ?? 0
        }
    }

    /// The number of a name, `.other` for an unknown one.
    func number(of text: Span<UInt8>) -> FieldName { Self.number(of: text, texts, slots) }

    /// The text of a numbered name.
    package func text(of name: FieldName) -> [UInt8] { texts[Int(name.rawValue)] }

    /// The lowest index of the static table with this name, or 0.
    func staticIndex(of name: FieldName) -> Int { staticIndices[Int(name.rawValue)] }

    private static func number(of text: Span<UInt8>, _ texts: [[UInt8]], _ slots: [UInt8]) -> FieldName {
        guard !text.isEmpty else { return .other }
        var slot = hash(text)
        while slots[slot] != 0 {
            let number = slots[slot]
            let known = texts[Int(number)]
            if known.span.isEqual(to: text) { return FieldName(rawValue: number) }
            slot = (slot + 1) & 511
        }
        return .other
    }

    /// The length, both ends and the middle distinguish the names in use.
    private static func hash(_ text: Span<UInt8>) -> Int {
        let last = text.count - 1
        return (text.count &* 37 &+ Int(text[0]) &* 5 &+ Int(text[last]) &* 11 &+ Int(text[last / 2]) &* 23) & 511
    }
}
