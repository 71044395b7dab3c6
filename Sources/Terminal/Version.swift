/// The version of the executables, which `--version` tells and workers show themselves with.
package enum Version {
    /// As in the names of releases: semantic, without a `v`.
    package static let current = "0.1.0"
}
