/// The result of an import.
package struct DeviceImportSummary: Sendable, Equatable {
    /// Lines with a device that were not refused.
    package let read: Int
    /// Lines among them whose column `active` says that the device is inactive.
    package let inactive: Int
    /// Devices that did not exist before.
    package let new: Int
    /// Devices that got another user key or kind, were deactivated, or were brought back.
    package let changed: Int
    /// Devices that stayed with the user whom their app has registered, although the file names another one.
    package let keptByApp: Int
    /// Devices that stayed active because their app has registered them, although the file calls them inactive.
    package var keptActive = 0
    /// Devices that stayed inactive although all were to come back: they have a newer token, were logged out, or were
    /// deactivated by hand after their app had registered them.
    package var keptInactive = 0
    /// Devices whose profile changed, such as their locale or their tags.
    package var profiles = 0
    /// Devices that were deactivated because another token of their installation stays active.
    package var replaced = 0
    /// Lines that were refused, and the first of these refusals. The other lines were imported.
    package var refused = 0
    package var refusals: [DeviceFileError] = []
    /// Devices that stayed as they were, except for their profiles, and repeated lines.
    package var unchanged: Int { read - new - changed }
}
