/// The files of `migrations/`, which are embedded in the program.
enum MigrationFiles {
    /// The paths without extension, such as `functions/send`, and the texts; sorted by path.
    static let all: [(name: String, sql: String)] = EmbeddedMigrations.files.map { file in
        (name: String(file.name.dropLast(".sql".count)), sql: file.text)
    }
}
