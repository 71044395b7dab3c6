import FoundationEssentials
import PostgresStore
import Terminal
import Transport

/// The demo's message and devices: from a folder of examples, or generated.
struct DemoMaterial: Sendable {
    /// JSON.
    let payload: String
    /// JSON, as `pushq simulate --rules` reads it.
    let rules: String
    /// The file of devices. Each call starts at its beginning.
    let devices: @Sendable () throws -> DeviceFile
    /// Pushes per second, so that there is something to watch; nil: as fast as possible.
    let rate: Double?
    /// Devices that are deactivated before the campaign, and so suppressed by it.
    let inactiveCount: Int
    /// Whether the campaign is for the file's tokens instead of all active devices.
    let isForList: Bool

    private static let usualCount = 2000
    private static let usualPayload = #"{"aps":{"alert":{"title":"Spring sale","body":"Everything at half price"}}}"#
    private static let usualRules = """
        {"outcomes": [
            {"share": 0.005, "reason": "BadDeviceToken"},
            {"share": 0.015, "reason": "Unregistered"},
            {"probability": 0.02, "reason": "TooManyRequests"},
            {"probability": 0.005, "reason": "ServiceUnavailable"}
        ]}
        """

    /// - Parameters:
    ///   - folder: a folder with `devices.csv`, `payload.json` and `rules.json`; nil: the built-in ones.
    ///   - deviceCount: generates this number of devices instead of reading those of the folder.
    init(folder: String?, deviceCount: Int?) throws {
        payload = try folder.map { try Payload(InputFile("\($0)/payload.json")).text } ?? Self.usualPayload
        rules =
            try folder.map { String(decoding: try InputFile("\($0)/rules.json").contents(), as: UTF8.self) }
            ?? Self.usualRules
        if let folder, deviceCount == nil {
            let file = InputFile("\(folder)/devices.csv")
            devices = { try file.devices() }
        } else {
            let count = deviceCount ?? Self.usualCount
            devices = { MadeUpDevices.file(count: count) }
        }
        let isLarge = deviceCount != nil
        rate = isLarge ? nil : 500
        inactiveCount = isLarge ? 0 : 20
        isForList = !isLarge
    }
}

/// Generates tokens that look real and are the same each time.
enum MadeUpDevices {
    private static let linesInPiece = 4096

    /// A file of `count` bare tokens.
    static func file(count: Int) -> DeviceFile {
        let next = Locked(0)
        return DeviceFile(name: "made-up devices") {
            let lines = next.withLock { next in
                let lines = next..<min(count, next + linesInPiece)
                next = lines.upperBound
                return lines
            }
            return lines.isEmpty ? nil : lines.reduce(into: []) { bytes, index in append(token: index, to: &bytes) }
        }
    }

    private static func append(token index: Int, to bytes: inout [UInt8]) {
        var state = UInt64(index)
        for _ in 0..<4 {
            var word = mix(&state)
            for _ in 0..<16 {
                bytes.append(digits[Int(word >> 60)])
                word <<= 4
            }
        }
        bytes.append(UInt8(ascii: "\n"))
    }

    private static let digits = Array("0123456789abcdef".utf8)

    /// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    private static func mix(_ state: inout UInt64) -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}
