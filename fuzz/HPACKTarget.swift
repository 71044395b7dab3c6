import HTTP2

/// Header blocks: of others through the decoder, and values of others through our encoder and the decoder.
enum HPACKTarget: FuzzTarget {
    static let name = "hpack"

    private static let names = FieldNames(application: ["apns-id", "retry-after"])
    private static let limits = HPACKDecoder.Limits()

    /// An input is a size for the table, and blocks with their lengths before them.
    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let capacity = Int(reader.byte()) * 32
        var decoder = HPACKDecoder(names: names, limits: limits)
        decoder.setCapacityLimit(capacity)
        var section = FieldSection()
        var echo = Echo(capacity: capacity)
        while !reader.isAtEnd {
            let block = reader.bytes(Int(reader.byte()) << 8 | Int(reader.byte()))
            do throws(Violation) {
                try decoder.decode(block.span, into: &section)
            } catch {
                return  // The connection would end with it.
            }
            precondition(section.count <= limits.fieldCount)
            check(section)
            echo.send(section)
        }
    }

    private static func check(_ section: borrowing FieldSection) {
        var byteCount = 0
        for field in section.fields {
            byteCount += section.withName(of: field) { $0.count } + section.withValue(of: field) { $0.count } + 32
        }
        precondition(byteCount <= limits.listByteCount, "a header list is larger than its limit")
    }

    /// What our encoder makes of values has to come out of the decoder again.
    private struct Echo: ~Copyable {
        private static let fields = (0..<2).map { FieldName(application: $0) }

        private var encoder = HPACKEncoder(names: HPACKTarget.names)
        private var decoder = HPACKDecoder(
            names: HPACKTarget.names, limits: .init(listByteCount: 1 << 20, fieldCount: 1000))
        private var section = FieldSection()

        init(capacity: Int) {
            decoder.setCapacityLimit(capacity)
            encoder.setCapacityLimit(capacity)
        }

        mutating func send(_ original: borrowing FieldSection) {
            let values = original.fields.map { field in original.withValue(of: field) { Array($0) } }
            var block = ByteQueue()
            encoder.beginBlock(into: &block)
            for (number, value) in values.enumerated() {
                encoder.append(Self.fields[number % 2], value.span, into: &block)
            }
            let bytes = block.withBytes { Array($0) }
            do throws(Violation) {
                try decoder.decode(bytes.span, into: &section)
            } catch {
                preconditionFailure("what we have encoded is refused: \(error)")
            }
            let echoed = section.fields.map { field in section.withValue(of: field) { Array($0) } }
            precondition(echoed == values, "a value has changed on its way through encoder and decoder")
        }
    }
}
