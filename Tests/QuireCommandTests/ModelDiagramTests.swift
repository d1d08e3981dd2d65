import Quire
import Testing

@testable import QuireCommand

/// Models as Mermaid and Graphviz diagrams.
@Suite struct ModelDiagramTests {
    private static let model = ManagedObjectModel {
        Composite("Place") { Attribute("latitude", .double) }
        Entity("class") {
            Attribute("end", .string)
            ToOne("note", "Größe", inverse: "classes").required()
            ToMany("friends", "class", inverse: "friends")
            ToMany("watched", "Order")
        }
        Entity("Größe") {
            Attribute("place", composite: "Place")
            Attribute("count", .integer32).derived("classes.@count")
            ToMany("classes", "class", inverse: "note").ordered().required().count(atLeast: 1)
        }
        Entity("Order", inherits: "Größe") {}
    }

    private func text(
        _ entity: String? = nil, _ print: (ModelDiagram, Output) throws -> Void
    ) throws -> String {
        var bytes: [UInt8] = []
        let output = Output(json: false) { bytes += $0 }
        try print(ModelDiagram(Self.model.layout(), entity: entity), output)
        try output.flush()
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func mermaidQuotesNamesAndDrawsPairsOnce() throws {
        #expect(
            try text { try $0.printMermaid($1) } == #"""
                classDiagram
                  class `class` {
                    end : string
                  }
                  class `Größe` {
                    place : Place
                    /count : integer32
                  }
                  class `Order`
                  `Größe` <|-- `Order`
                  `class` "1..*" -- "1" `Größe` : note / classes (ordered)
                  `class` "*" -- "*" `class` : friends
                  `class` --> "*" `Order` : watched

                """#)
    }

    @Test func dotQuotesNamesAndDrawsPairsOnce() throws {
        #expect(
            try text { try $0.printDot($1) } == #"""
                digraph model {
                  node [shape=record];
                  "class" [label="{class|end : string\l}"];
                  "Größe" [label="{Größe|place : Place\l/count : integer32\l}"];
                  "Order" [label="{Order}"];
                  "Order" -> "Größe" [arrowhead=empty];
                  "class" -> "Größe" [label="note / classes (ordered)", dir=none, taillabel="1..*", headlabel="1"];
                  "class" -> "class" [label="friends", dir=none, taillabel="*", headlabel="*"];
                  "class" -> "Order" [label="watched", headlabel="*"];
                }

                """#)
    }

    @Test func singleEntityIsDrawnWithItsRelationships() throws {
        #expect(
            try text("Größe") { try $0.printMermaid($1) } == #"""
                classDiagram
                  class `Größe` {
                    place : Place
                    /count : integer32
                  }
                  `Größe` "1" -- "1..*" `class` : classes (ordered) / note

                """#)
        #expect(throws: QuireError.self) { try text("Nobody") { try $0.printDot($1) } }
    }
}
