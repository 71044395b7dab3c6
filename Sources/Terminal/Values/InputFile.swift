package import Transport

/// A file to read; `-` is standard input.
package struct InputFile: ArgumentValue, Equatable, Sendable {
    /// The path as it was given.
    package let path: String

    /// The file at `path`.
    package init(_ path: String) {
        self.path = path
    }

    package static var placeholder: String { "FILE" }
    package var shown: String { path }

    package static func parse(_ text: String) throws(InvalidValue) -> InputFile {
        guard !text.isEmpty else { throw InvalidValue(Messages.empty) }
        return InputFile(text)
    }

    /// The name of the file in messages.
    package var name: String { path == "-" ? "standard input" : path }

    /// Opens the file for reading.
    ///
    /// - Throws: ``UnreadableFile``, with the operating system's message.
    package func open() throws(UnreadableFile) -> OpenFile {
        // The system opens a folder without an error, and only fails to read it.
        if path != "-", FileStatus(path)?.isFolder ?? false { throw UnreadableFile(path: path, why: "it is a folder") }
        do throws(OpenFile.Failure) {
            return path == "-" ? try .standardInput() : try .reading(path)
        } catch {
            throw UnreadableFile(path: path, error)
        }
    }

    /// Reads the whole file.
    package func contents() throws(UnreadableFile) -> [UInt8] {
        let file = try open()
        do throws(OpenFile.Failure) {
            return try file.readToEnd()
        } catch {
            throw UnreadableFile(path: path, error)
        }
    }
}

/// A file that cannot be read, and why.
package struct UnreadableFile: Error, CustomStringConvertible {
    package let path: String
    package let why: String

    fileprivate init(path: String, why: String) {
        self.path = path
        self.why = why
    }

    init(path: String, _ failure: OpenFile.Failure) {
        let words = failure.description.prefix(1).lowercased() + failure.description.dropFirst()
        self.init(
            path: path,
            why: failure.isMissing
                ? "there is no such file" : failure.isClosed && path == "-" ? Messages.inputIsClosed : words)
    }

    package var description: String { Messages.fileUnreadable(path == "-" ? "standard input" : path, why: why) }
}
