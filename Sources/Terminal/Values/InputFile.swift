package import Transport

/// A file to read; `-` is standard input.
package struct InputFile: ArgumentValue, Equatable, Sendable {
    /// As it was given, and as messages name it.
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

    /// How messages name it.
    package var name: String { path == "-" ? "standard input" : path }

    /// Opens it for reading.
    ///
    /// - Throws: ``UnreadableFile``, in words of the operating system's.
    package func open() throws(UnreadableFile) -> OpenFile {
        // The system opens a folder, and says only to its reader that it is one.
        if path != "-", FileStatus(path)?.isFolder ?? false { throw UnreadableFile(path: path, why: "it is a folder") }
        do throws(OpenFile.Failure) {
            return path == "-" ? try .standardInput() : try .reading(path)
        } catch {
            throw UnreadableFile(path: path, error)
        }
    }

    /// Reads all of it.
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

    fileprivate init(path: String, _ failure: OpenFile.Failure) {
        let words = failure.description.prefix(1).lowercased() + failure.description.dropFirst()
        self.init(path: path, why: failure.isMissing ? "there is no such file" : words)
    }

    package var description: String { Messages.fileUnreadable(path, why: why) }
}
