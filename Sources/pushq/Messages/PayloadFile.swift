import Foundation
import Terminal

/// Reads a payload, which is sent byte for byte as it stands in its file.
enum PayloadFile {
    /// The payload without the newline that an editor leaves at its end. Whether APNs takes it is PostgreSQL's to say,
    /// by the same rules for all producers.
    ///
    /// - Throws: ``Failure`` with the line at which it is no JSON.
    static func read(_ file: InputFile) throws -> String {
        let data = try file.contents()
        guard let text = String(validating: data, as: UTF8.self) else {
            throw Failure("\(file.name): the payload is not UTF-8 text")
        }
        do {
            _ = try JSONSerialization.jsonObject(with: data)
        } catch {
            throw Failure("\(file.name):\(line(of: error, in: data)): the payload is not JSON")
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The payload of an alert that is only a text.
    static func alert(_ text: String) -> String {
        let payload: JSON = ["aps": ["alert": .string(text)]]
        return payload.text
    }

    /// The line that an error of Foundation's is about, which says "around character 19"; without a number it is the end.
    private static func line(of error: any Error, in data: Data) -> Int {
        let text = (error as NSError).userInfo[NSDebugDescriptionErrorKey] as? String ?? ""
        let position = text.firstMatch(of: /character (\d+)/).flatMap { Int($0.output.1) } ?? data.count
        return data.prefix(position).count { $0 == UInt8(ascii: "\n") } + 1
    }
}
