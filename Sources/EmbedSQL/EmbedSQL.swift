// Writes a Swift file that holds every SQL file it is given as a raw string literal.
//
// SwiftPM's own `.embedInCode` writes an array of bytes, which takes the compiler minutes for a few hundred
// kilobytes, and drops the leading digit of the file names.
import Foundation

@main
enum EmbedSQL {
    /// Arguments: the output file, then the SQL files in the order in which they are to run.
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard let output = arguments.first else {
            throw CocoaError(.fileNoSuchFile)
        }
        var source = "// Generated from migrations/*.sql by the EmbedMigrations plugin.\n\n"
        source += "enum EmbeddedMigrations {\n    static let files: [(name: String, sql: String)] = [\n"
        for path in arguments.dropFirst() {
            let name = URL(fileURLWithPath: path).deletingPathExtension().lastPathComponent
            let sql = try String(contentsOfFile: path, encoding: .utf8)
            source += "        (\"\(name)\", ####\"\"\"\n\(sql)\n\"\"\"####),\n"
        }
        source += "    ]\n}\n"
        try source.write(toFile: output, atomically: true, encoding: .utf8)
    }
}
