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
            throw Failure("\(file.name)\(place(in: error)): the payload is not JSON")
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The payload of an alert that is only a text.
    static func alert(_ text: String) -> String {
        let payload: JSON = ["aps": ["alert": .string(text)]]
        return payload.text
    }

    /// `:3` for an error of Foundation's that says "around line 3, column 7".
    private static func place(in error: any Error) -> String {
        let text = (error as NSError).userInfo[NSDebugDescriptionErrorKey] as? String ?? ""
        return text.firstMatch(of: /line (\d+)/).map { ":\($0.output.1)" } ?? ""
    }
}
