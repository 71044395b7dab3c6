/// Bodies that wait for the peer's windows.
///
/// Bodies that wait for the connection's window take turns, one frame each, so that a long body does not starve short
/// ones. Bodies that wait for their own stream's window are set aside, so they cost the other bodies nothing.
struct BodyQueue {
    struct Body {
        let streamID: UInt32
        let bytes: [UInt8]
        var offset: Int

        var byteCount: Int { bytes.count - offset }
    }

    private var waiting: [Body] = []
    private var head = 0
    private var aside: [UInt32: Body] = [:]
    /// How many octets of body wait.
    private(set) var byteCount = 0

    mutating func append(_ body: Body) {
        byteCount += body.byteCount
        waiting.append(body)
    }

    mutating func popFirst() -> Body? {
        guard head < waiting.count else { return nil }
        let body = waiting[head]
        head += 1
        if head == waiting.count || head >= 1024 {
            waiting.removeFirst(head)
            head = 0
        }
        byteCount -= body.byteCount
        return body
    }

    /// Sets a body aside until its stream's window opens.
    mutating func setAside(_ body: Body) {
        byteCount += body.byteCount
        aside[body.streamID] = body
    }

    /// Lets the body of a stream take part again, if it was set aside.
    mutating func recall(_ streamID: UInt32) {
        if let body = aside.removeValue(forKey: streamID) { waiting.append(body) }
    }

    /// Lets all bodies take part again, in the order of their streams.
    mutating func recallAll() {
        waiting.append(contentsOf: aside.values.sorted { $0.streamID < $1.streamID })
        aside.removeAll()
    }

    /// Removes the body of a stream that is gone. A peer may answer without giving a window. Octets that will never be
    /// sent must not make the queue look full to its owner.
    mutating func remove(_ streamID: UInt32) {
        if let body = aside.removeValue(forKey: streamID) {
            byteCount -= body.byteCount
        } else if let index = waiting[head...].firstIndex(where: { $0.streamID == streamID }) {
            // Peers answer roughly in the order of the queue, so the search is short.
            byteCount -= waiting.remove(at: index).byteCount
        }
    }

    var isEmpty: Bool { head == waiting.count && aside.isEmpty }
}
