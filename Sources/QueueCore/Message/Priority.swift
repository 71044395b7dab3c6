/// `apns-priority`.
package enum Priority: Int, CaseIterable, Sendable {
    /// At once.
    case immediate = 10
    /// When it suits the device's power; required of background pushes.
    case powerAware = 5
    /// Never wakes the device.
    case passive = 1
}
