internal import QuireSystem

/// Pragmas that a program sets by ``SQLiteStoreOptions/pragmas``, as statements.
struct SQLitePragmas {
    /// The statements, in the order of the names.
    let statements: [String]

    /// Names of pragmas that would take away what a store promises, or that options of their own set.
    private static let refused: Set<String> = [
        "application_id", "auto_vacuum", "busy_timeout", "case_sensitive_like", "cell_size_check",
        "defer_foreign_keys", "encoding", "foreign_keys", "ignore_check_constraints",
        "journal_mode",
        "legacy_alter_table", "legacy_file_format", "locking_mode", "page_size", "query_only",
        "read_uncommitted", "recursive_triggers", "reverse_unordered_selects", "schema_version",
        "synchronous", "temp_store", "trusted_schema", "user_version", "writable_schema",
    ]

    /// Checks pragmas.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if one is refused, or is not made of letters, digits, `_` and `-`.
    init(_ pragmas: [String: String], path: String) throws {
        statements = try pragmas.sorted { $0.key < $1.key }.map { name, value in
            if Self.refused.contains(name.lowercased()) {
                throw QuireError(
                    .invalidValue,
                    "The pragma “\(name)” cannot be set for “\(path)”: the store relies on its value, or there is an "
                        + "option for it.", subject: .init(file: path, value: value))
            }
            guard Self.isWord(name), Self.isWord(value) else {
                throw QuireError(
                    .invalidValue,
                    "“\(name) = \(value)” is no pragma: names and values are letters, digits, “_” and “-”.",
                    subject: .init(file: path, value: value))
            }
            return "PRAGMA \(name) = \(value)"
        }
    }

    private static func isWord(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy {
                $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") || (0x30...0x39).contains($0)
                    || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
            }
    }
}
