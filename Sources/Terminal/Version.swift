/// The version of the executables, which `--version` and the list of workers show.
package enum Version {
    /// The semantic version, as in the names of releases, without a `v`.
    package static let current = "0.1.0"
}
