import CLinux
import Foundation

/// Descriptors that are kept back for saving and closing, so that a process with too many files open can still save and
/// close those.
///
/// - The reserve is filled before a store is opened: what fails for want of descriptors is the opening, not the save after it.
/// - It is free to be used while any save or close runs, and is refilled after the last of them. If as many other descriptors
///   are free when a save begins, it is left alone. Other threads that open files at that moment may take descriptors from it;
///   then the save fails as it would without a reserve, and no store can be opened until there are descriptors again.
package enum DescriptorReserve {
    /// More than a save has open at once.
    private static let size = 16

    private struct State {
        var descriptors: [Int32] = []
        /// The number of saves and closes that run.
        var uses = 0
        /// Whether a store was ever opened.
        var isNeeded = false
        /// The lowest of as many descriptors as the reserve has, below the limit of when a store was opened last.
        var lowest: Int32 = 0
    }

    private static let state = Lock(State())

    /// Fills the reserve, before a store is opened.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput` if too many files are open.
    package static func fill(beforeOpening path: String) throws {
        try state.withLock { state in
            state.isNeeded = true
            var limit = rlimit()
            if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
                // A table of descriptors grows to the highest number used.
                state.lowest = Int32(min(limit.rlim_cur, 4_096)) - Int32(size)
            }
            if state.uses > 0 { return }
            let number = fill(&state)
            if [EMFILE, ENFILE].contains(number) {
                throw FileSystem.failure("open", path, errno: number)
            }
        }
    }

    /// Lets the reserve be used until ``endUse()``.
    package static func beginUse() {
        state.withLock { state in
            state.uses += 1
            if let descriptor = state.descriptors.first,
                areFree(from: state.lowest, copying: descriptor)
            {
                return
            }
            for descriptor in state.descriptors { _ = CLinux.close(descriptor) }
            state.descriptors = []
        }
    }

    /// Ends a use.
    package static func endUse() {
        state.withLock { state in
            state.uses -= 1
            if state.uses == 0 && state.isNeeded { _ = fill(&state) }
        }
    }

    /// Whether descriptors from a number near the limit on are free, for all that two system calls can tell: the kernel gives out
    /// the lowest free number, so if that is, those above it are. It refuses a number above a limit that is lower now.
    private static func areFree(from lowest: Int32, copying descriptor: Int32) -> Bool {
        let duplicate = quire_duplicate(descriptor, lowest)
        if duplicate >= 0 { _ = CLinux.close(duplicate) }
        return duplicate == lowest
    }

    /// - Returns: 0, or `errno` if there are too few descriptors.
    private static func fill(_ state: inout State) -> Int32 {
        while state.descriptors.count < size {
            // Needs no permission, and holds no file.
            let descriptor =
                state.descriptors.first.map { quire_duplicate($0, 0) }
                ?? quire_open_folder_path(AT_FDCWD, "/")
            if descriptor < 0 { return errno }
            state.descriptors.append(descriptor)
        }
        return 0
    }
}
