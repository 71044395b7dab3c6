import Glibc
import Transport

/// The two ends of a stream between this program and a child.
///
/// A pair of sockets, since those can be made close-on-exec in one step: an end of a pipe that slips into a child which
/// another thread starts at that moment would stay open as long as that child runs, and the reader would wait for it.
struct Channel {
    let reading: OpenFile
    let writing: OpenFile

    init() throws(LocalStackError) {
        var ends: [CInt] = [-1, -1]
        let kind = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw .cannotStart(executable: "a process", reason: unsafe String(cString: strerror(errno)))
        }
        reading = OpenFile(descriptor: ends[0])
        writing = OpenFile(descriptor: ends[1])
    }
}
