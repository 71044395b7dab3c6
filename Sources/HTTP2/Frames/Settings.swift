/// The settings one endpoint has announced, starting from the initial values (RFC 9113 §6.5.2).
package struct Settings: Equatable, Sendable {
    /// 0x1: the maximum dynamic table of the announcer's *decoder*, in octets.
    package var headerTableSize = 4096
    /// 0x2: whether the announcer accepts PUSH_PROMISE.
    package var enablePush = true
    /// 0x3: how many streams the announcer's peer may have open at once; nil: no limit was announced.
    package var maximumConcurrentStreams: Int?
    /// 0x4: the flow-control window with which the streams of the announcer's peer start.
    package var initialWindowSize = 65_535
    /// 0x5: the largest frame payload the announcer accepts.
    package var maximumFrameSize = 16_384
    /// 0x6: the largest header list the announcer accepts, counted as in RFC 7541 §4.1; a hint.
    package var maximumHeaderListSize: Int?

    package init() {}

    static let maximumWindowSize = 0x7fff_ffff
    static let frameSizes = 16_384...16_777_215

    /// Returns the entries of a SETTINGS frame: those that differ from `other`, in the order of their identifiers.
    func entries(changedFrom other: Settings) -> [(identifier: UInt16, value: UInt32)] {
        var entries: [(identifier: UInt16, value: UInt32)] = []
        func add(_ identifier: UInt16, _ new: Int?, _ old: Int?) {
            if let new, new != old { entries.append((identifier, UInt32(clamping: new))) }
        }
        add(0x1, headerTableSize, other.headerTableSize)
        add(0x2, enablePush ? 1 : 0, other.enablePush ? 1 : 0)
        add(0x3, maximumConcurrentStreams, other.maximumConcurrentStreams)
        add(0x4, initialWindowSize, other.initialWindowSize)
        add(0x5, maximumFrameSize, other.maximumFrameSize)
        add(0x6, maximumHeaderListSize, other.maximumHeaderListSize)
        return entries
    }

    /// Applies one entry of a SETTINGS frame. Unknown identifiers are ignored (RFC 9113 §6.5.2).
    mutating func apply(identifier: UInt16, value: UInt32, fromServer: Bool) throws(HTTP2Error) {
        let value = Int(value)
        switch identifier {
        case 0x1:
            headerTableSize = value
        case 0x2:
            // A server must not offer what only a client may accept (RFC 9113 §6.5.2).
            guard value == 0 || value == 1 && !fromServer else { throw .connection(.protocolError, .invalidSetting) }
            enablePush = value == 1
        case 0x3:
            maximumConcurrentStreams = value
        case 0x4:
            guard value <= Self.maximumWindowSize else { throw .connection(.flowControlError, .invalidSetting) }
            initialWindowSize = value
        case 0x5:
            guard Self.frameSizes.contains(value) else { throw .connection(.protocolError, .invalidSetting) }
            maximumFrameSize = value
        case 0x6:
            maximumHeaderListSize = value
        default:
            break
        }
    }
}
