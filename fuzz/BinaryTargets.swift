import APNs

/// What the server of the binary interface may send to a gateway.
enum BinaryErrorTarget: FuzzTarget {
    static let name = "binary-error"

    static func read(_ input: [UInt8]) {
        let (whole, pieces) = (packets(in: [input]), packets(in: input.map { [$0] }))
        precondition(whole.first == pieces.first, "the pieces in which a packet comes change what it says")
    }

    private static func packets(in parts: [[UInt8]]) -> [ErrorPacket] {
        var parser = ErrorPacket.Parser()
        var packets: [ErrorPacket] = []
        for part in parts {
            do throws(BinaryProtocolError) {
                if let packet = try parser.take(part.span) { packets.append(packet) }
            } catch {
                break  // The connection would end with it.
            }
        }
        return packets
    }
}

/// What the feedback service may send.
enum BinaryFeedbackTarget: FuzzTarget {
    static let name = "binary-feedback"

    static func read(_ input: [UInt8]) {
        let (whole, pieces) = (records(in: [input]), records(in: input.map { [$0] }))
        precondition(whole == pieces, "the pieces in which a record comes change what it says")
        let byteCount = whole.reduce(0) { $0 + 6 + $1.token.count }
        precondition(byteCount <= input.count, "more was read than there is")
    }

    private static func records(in parts: [[UInt8]]) -> [FeedbackRecord] {
        var parser = FeedbackRecord.Parser()
        var records: [FeedbackRecord] = []
        for part in parts {
            do throws(BinaryProtocolError) {
                try parser.take(part.span, into: &records)
            } catch {
                break  // The list would end with it.
            }
        }
        return records
    }
}
