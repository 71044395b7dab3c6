import QueueCore

/// A pattern of queue names: `*` stands for any run of characters.
package struct QueuePattern {
    private let parts: [Substring]

    init(_ text: String) { parts = text.split(separator: "*", omittingEmptySubsequences: false) }

    func matches(_ name: String) -> Bool {
        guard parts.count > 1 else { return parts[0] == name }
        guard name.hasPrefix(parts[0]) else { return false }
        var rest = name.dropFirst(parts[0].count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let range = rest.firstRange(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        return rest.hasSuffix(parts[parts.count - 1])
    }

    /// Why no queue can have a name that `text` matches, whatever queues there will be; nil if one can.
    package static func problem(in text: String) -> String? {
        guard text.utf8.allSatisfy({ $0 == UInt8(ascii: "*") || QueueName.mayContain($0) }) else {
            return "has a character that no queue's name has; one pattern stands for several queues only by its *"
        }
        guard text.contains("*") else {
            do throws(NameError) {
                _ = try QueueName(parsing: text)
                return nil
            } catch {
                return "has no *, and is no queue: \(error)"
            }
        }
        guard text.count(where: { $0 == "/" }) <= 2 else {
            return "has more than two slashes: use tenant/app/environment"
        }
        let last = text.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        let end = last.split(separator: "*", omittingEmptySubsequences: false).last ?? ""
        // Without a *, the last part is the whole name of an environment.
        let isEnvironment = Environment.allCases.contains {
            last.contains("*") ? $0.rawValue.hasSuffix(end) : $0.rawValue == end
        }
        return isEnvironment ? nil : "ends in “\(end)”, and queues end in production or sandbox"
    }
}
