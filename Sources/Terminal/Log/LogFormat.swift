package import FoundationEssentials
import QueueCore

/// The format of a log, with one line for each entry.
package enum LogFormat: String, ArgumentChoice {
    /// Time, level and sentence, for people.
    case text
    /// A JSON object, for programs that collect logs.
    case json

    /// The maximum bytes of one text in a line.
    private static let maximumTextBytes = 2048

    /// Returns the line of an entry.
    /// - Parameter forJournal: whether systemd's journal reads the line. The line then begins with its priority, and
    ///   text has neither time nor level, because the journal shows both.
    package func line(of entry: LogEntry, at date: Date, forJournal: Bool = false) -> String {
        let priority = forJournal ? "<\(entry.level.priority)>" : ""
        let time = date.formatted(
            .iso8601.year().month().day().time(includingFractionalSeconds: true).timeZone(separator: .omitted))
        switch self {
        case .text: return priority + (forJournal ? "" : "\(time) ") + text(of: entry, saysLevel: !forJournal)
        case .json: return priority + json(of: entry, time: time).text
        }
    }

    private func text(of entry: LogEntry, saysLevel: Bool) -> String {
        let level = saysLevel && entry.level >= .warning ? "\(entry.level): " : ""
        return level + (entry.repetition.map(sentence) ?? "") + entry.message.printable(upTo: Self.maximumTextBytes)
    }

    /// Returns the beginning of an entry that stands for several.
    private func sentence(_ repetition: LogEntry.Repetition) -> String {
        let (count, seconds, others) = (repetition.count, seconds(of: repetition), repetition.others)
        let also = others.isEmpty ? "" : " (also of \(others.joined(separator: ", ")))"
        guard repetition.isFurther else { return "\(count) more like this in \(seconds) s\(also), the last: " }
        let time = repetition.time >= LogBursts.quiet ? "minute" : "\(seconds) s"
        return "still, \(count == 1 ? "once" : "\(count) times") in the last \(time)\(also): "
    }

    private func json(of entry: LogEntry, time: String) -> JSON {
        let repetition = entry.repetition.map {
            [("repeated", JSON.integer($0.count)), ("seconds", .integer(seconds(of: $0)))]
                + ($0.others.isEmpty
                    ? [] : [("other_\(entry.subject?.kind ?? "queue")s", .array($0.others.map { .string($0) }))])
        }
        return .object(
            [
                ("time", .string(time)), ("level", .string("\(entry.level)")), ("event", .string(entry.event)),
                ("message", cut(.string(entry.message))),
            ] + entry.details.map { ($0.key, cut($0.value)) } + (repetition ?? []))
    }

    private func cut(_ value: JSON) -> JSON {
        guard case .string(let text) = value else { return value }
        return .string(text.printable(upTo: Self.maximumTextBytes))
    }

    private func seconds(of repetition: LogEntry.Repetition) -> Int {
        Int((repetition.time / .seconds(1)).rounded(.up))
    }
}
