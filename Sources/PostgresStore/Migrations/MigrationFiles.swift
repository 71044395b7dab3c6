/// The files of `migrations/`, which the program carries.
enum MigrationFiles {
    /// Their paths without the ending, such as `functions/send`, and their texts; sorted by path.
    static let all: [(name: String, sql: String)] = EmbeddedMigrations.files.map { file in
        (name: String(file.name.dropLast(".sql".count)), sql: file.text)
    }
}
