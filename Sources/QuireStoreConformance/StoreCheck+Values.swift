import Foundation
import Quire

extension StoreCheck {
    /// Values of every type.
    static let values = [
        StoreCheck("a new store is empty", needs: []) { scene in
            for entity in scene.store.layout.entities {
                scene.expect(try scene.count(entity.name), is: 0, "The count of \(entity.name)")
                scene.expect(
                    try scene.store.rows(matching: FetchRequest(entity.name)).isEmpty,
                    "There are rows of \(entity.name).")
            }
        },
        StoreCheck("values of every type come back", model: ConformanceModel.everyType) { scene in
            var saved: [(ManagedObjectID, String, AttributeValue)] = []
            for (key, values) in extremeValues {
                let ids = try scene.insert("Everything", values.map { [key: $0] })
                for (id, value) in zip(ids, values) { saved.append((id, key, value)) }
            }
            func compare(_ when: String) throws {
                for (id, key, value) in saved {
                    let found = try scene.value(key, of: id)
                    scene.expect(
                        found == value,
                        "“\(key)” \(when) is \(shown(found)) and should be \(shown(value)).")
                }
            }
            try compare("after the save")
            if scene.reopens {
                try scene.reopen()
                try compare("after opening the store again")
            }
        },
        StoreCheck("what has no value has none", model: ConformanceModel.everyType) { scene in
            let id = try scene.insert("Everything", [[:]])[0]
            for key in extremeValues.keys {
                scene.expect(try scene.value(key, of: id), is: .null, "“\(key)” of a new object")
            }
            try scene.perform { context in
                let object = try context.existingObject(with: id)
                for (key, values) in extremeValues { object[key] = values[0] }
                try context.save()
                for key in extremeValues.keys { object[key] = .null }
                try context.save()
            }
            for key in extremeValues.keys {
                scene.expect(try scene.value(key, of: id), is: .null, "“\(key)” set to nothing")
            }
            if scene.reopens { try scene.reopen() }
            for key in extremeValues.keys {
                scene.expect(try scene.value(key, of: id), is: .null, "“\(key)” after all")
            }
        },
        StoreCheck(
            "decimal numbers keep all digits", needs: [.saving, .exactDecimals],
            model: ConformanceModel.everyType
        ) { scene in
            let texts = [
                "12345678901234567890123456789012345678",
                "-0.00000000000000000000000000000000000001",
                "9.99e100",
            ]
            let values = texts.compactMap { Decimal(string: $0) }.map { AttributeValue.decimal($0) }
            let ids = try scene.insert("Everything", values.map { ["decimal": $0] })
            if scene.reopens { try scene.reopen() }
            for (id, value) in zip(ids, values) {
                scene.expect(try scene.value("decimal", of: id), is: value, "A decimal number")
            }
        },
    ]

    private static func shown(_ value: AttributeValue?) -> String {
        if case .binary(let data)? = value { return "\(data.count) bytes" }
        return value.map { "“\($0)”" } ?? "not there"
    }

    private static let extremeValues: [String: [AttributeValue]] = [
        "int16": [1, -1, 0, .integer(Int64(Int16.min)), .integer(Int64(Int16.max))],
        "int32": [1, 0, .integer(Int64(Int32.min)), .integer(Int64(Int32.max))],
        "int64": [1, 0, .integer(.min), .integer(.max), .integer(1 << 53 + 1)],
        "double": [
            0.1, 1e308, -1e-308, .double(.greatestFiniteMagnitude), .double(.leastNonzeroMagnitude),
            .double(.infinity), .double(-.infinity), .double(1.0 / 3), 0.0, 12345.0,
        ],
        "float": [
            0.5, .double(Double(Float.greatestFiniteMagnitude)), .double(Double(Float(0.1))),
        ],
        "decimal": ["9.99", "-0.5", "0", "123456789012345", "1e20", "0.000001"].compactMap {
            Decimal(string: $0)
        }.map { .decimal($0) },
        "boolean": [true, false],
        "string": [
            "text", "", " ", "a\nb\r\nc\td", "<&>\"'\\ \\u3c00 ]]>", "Zoë 鸟 🐦 e\u{301} \u{202E}",
            "\u{0}\u{1}\u{1F}\u{7F}\u{FFFE}\u{FFFF}",
            .string(String(repeating: "long ", count: 5000)),
        ],
        "date": [0, 0.1, -1e9, 1e10, 638_789_123.456_789, 978_307_200].map {
            .date(Date(timeIntervalSinceReferenceDate: $0))
        },
        "binary": [
            .binary(Data([1])), .binary(Data()), .binary(Data(0...255)),
            .binary(Data(repeating: 0, count: 300_000)),
        ],
        "uuid": [
            .uuid(UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255))),
            .uuid(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))),
        ],
        "uri": ["https://example.com/a?b=c&d=%20#e", "mailto:a@b.c", "relative/path"].compactMap {
            URL(string: $0)
        }.map { .uri($0) },
        "transformable": [.binary(Data([0, 255, 1])), .binary(Data("plist".utf8))],
    ]
}
