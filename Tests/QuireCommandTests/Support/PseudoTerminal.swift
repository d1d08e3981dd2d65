import Foundation
import Glibc
import Testing

/// A terminal without a window.
final class PseudoTerminal {
    /// The end of programs.
    let device: Int32
    private let controller: Int32

    /// The width of the window.
    var columns: Int {
        didSet { setSize() }
    }

    init(columns: Int = 100) throws {
        self.columns = columns
        controller = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        // TIOCSPTLCK and TIOCGPTN, which Swift does not import.
        var (isLocked, number): (CInt, CUnsignedInt) = (0, 0)
        guard controller >= 0, ioctl(controller, 0x4004_5431, &isLocked) == 0,
            ioctl(controller, 0x8004_5430, &number) == 0
        else { throw POSIXError(.ENODEV) }
        device = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard device >= 0 else { throw POSIXError(.ENODEV) }
        setSize()
    }

    deinit {
        close(device)
        close(controller)
    }

    private func setSize() {
        var size = winsize(ws_row: 24, ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(controller, UInt(TIOCSWINSZ), &size)
    }

    func print(_ text: String) {
        _ = Array(text.utf8).withUnsafeBytes { write(device, $0.baseAddress, $0.count) }
    }

    /// Types on it.
    func type(_ text: String) {
        _ = Array(text.utf8).withUnsafeBytes { write(controller, $0.baseAddress, $0.count) }
    }

    private var rest: [UInt8] = []

    /// What programs have printed since the last time, up to a text. What has come after it is for the next time.
    ///
    /// - Throws: If it does not come within a minute.
    func read(until end: String) throws -> String {
        let end = Array(end.utf8)
        while true {
            if let found = rest.firstRange(of: end) {
                defer { rest.removeSubrange(..<found.upperBound) }
                return String(decoding: rest[..<found.upperBound], as: UTF8.self)
            }
            var events = pollfd(fd: controller, events: Int16(POLLIN), revents: 0)
            guard poll(&events, 1, 60_000) == 1 else {
                let seen = String(decoding: rest, as: UTF8.self).debugDescription
                Issue.record(
                    "“\(String(decoding: end, as: UTF8.self))” has not come, only \(seen).")
                throw POSIXError(.ETIMEDOUT)
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = Glibc.read(controller, &buffer, buffer.count)
            guard count > 0 else { throw POSIXError(.EIO) }
            rest += buffer[..<count]
        }
    }
}
