import Foundation
import PostgresStore
import Transport

extension DeviceFile {
    /// A time in a file that is later than all registrations so far.
    static var inAnHour: String { Date.now.addingTimeInterval(3600).formatted(.iso8601) }

    /// A file with the given text, read in pieces of a few bytes.
    static func text(_ text: String) -> DeviceFile {
        let rest = Locked(Array(text.utf8)[...])
        return DeviceFile(name: "devices.csv") {
            rest.withLock { rest in
                let piece = rest.prefix(5)
                rest = rest.dropFirst(5)
                return piece.isEmpty ? nil : Array(piece)
            }
        }
    }
}
