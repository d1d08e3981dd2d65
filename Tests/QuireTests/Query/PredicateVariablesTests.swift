import Quire
import Testing

@Suite struct PredicateVariablesTests {
    @Test func variablesGiveWayToConstants() throws {
        let template = try QueryPredicate(
            format: "NOT (name == $NAME OR year IN {$A, 2}) AND tag == $A")
        let predicate = try template.substituting(variables: ["NAME": "Emma", "A": 1, "unused": 2])
        #expect(predicate.format == "NOT (name == \"Emma\" OR year IN {1, 2}) AND tag == 1")
    }

    @Test func aVariableWithoutValueIsAnError() throws {
        let template = try QueryPredicate(format: "name == $NAME")
        let error = #expect(throws: QuireError.self) { try template.substituting(variables: [:]) }
        #expect(error?.code == .invalidQuery)
        #expect(error?.message.contains("$NAME") == true)
    }

    @Test func aVariableMayHaveAKeyPath() throws {
        let template = try QueryPredicate(format: "born == $FETCH_SOURCE.author.born")
        #expect("\(template)" == "born == $FETCH_SOURCE.author.born")
        let predicate = try template.substituting(variables: ["FETCH_SOURCE.author.born": 1775])
        #expect("\(predicate)" == "born == 1775")
    }
}
