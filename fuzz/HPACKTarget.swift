import HTTP2

/// Header blocks: of others through the decoder, and values of others through our encoder and the decoder.
enum HPACKTarget: FuzzTarget {
    static let name = "hpack"

    fileprivate static let names = FieldNames(application: ["apns-id", "retry-after"])

    /// An input is a size for the table, the limits of a list, and blocks with their lengths before them.
    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let capacity = Int(reader.byte()) * 32
        let limits = HPACKDecoder.Limits(drawnFrom: &reader)
        var decoding = Decoding(capacity: capacity, limits: limits)
        while !reader.isAtEnd {
            guard decoding.read(reader.bytes(Int(reader.byte()) << 8 | Int(reader.byte()))) else { return }
        }
    }

    /// A decoder, and what must hold of all that it gives.
    struct Decoding: ~Copyable {
        private let limits: HPACKDecoder.Limits
        private var decoder: HPACKDecoder
        private var section = FieldSection()
        private var echo: Echo

        init(capacity: Int, limits: HPACKDecoder.Limits) {
            self.limits = limits
            decoder = HPACKDecoder(names: names, limits: limits)
            decoder.setCapacityLimit(capacity)
            echo = Echo(capacity: capacity)
        }

        /// Reads a block; whether the connection would go on.
        mutating func read(_ block: [UInt8]) -> Bool {
            do throws(Violation) {
                try decoder.decode(block.span, into: &section)
            } catch {
                return false
            }
            precondition(section.count <= limits.fieldCount)
            var byteCount = 0
            for field in section.fields {
                byteCount += section.withName(of: field) { $0.count } + section.withValue(of: field) { $0.count } + 32
            }
            precondition(byteCount <= limits.listByteCount, "a header list is larger than its limit")
            echo.send(section)
            return true
        }
    }

    /// What our encoder makes of values has to come out of the decoder again.
    fileprivate struct Echo: ~Copyable {
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
