import QuireTestSupport
import Testing

/// `quire export --sign` and `quire verify --allowed-signers`, with keys that are made for each test.
@Suite(.needs(OpenSSH.isInstalled, or: "there is no ssh-keygen"))
struct SignatureTests {
    private func expect(_ text: String, location: SourceLocation = #_sourceLocation) throws {
        let preparation = """
            ssh-keygen -q -t ed25519 -N '' -C ada -f ada; ssh-keygen -q -t ed25519 -N '' -f bob
            ssh-keygen -q -t ed25519 -N secret -f locked; ssh-keygen -q -t rsa -N '' -f rsa
            echo "ada@example.org $(cat ada.pub)" > allowed
            quire new N.quire --template Blank
            """
        let actual = try Transcript(text).run(after: preparation)
        for (expected, actual) in zip(Transcript(text).steps, actual.steps) {
            #expect(
                actual.output == expected.output,
                "$ \(expected.command)\n\(actual.output.joined(separator: "\n"))",
                sourceLocation: location)
        }
    }

    @Test func archivesAreSignedAndVerified() throws {
        try expect(
            """
            $ quire export N.quire N.zip --sign ada
            Exported N.quire to N.zip: 2 files, signed.
            $ plain() { sed -E 's/[0-9]+ bytes/… bytes/; s/SHA256:[A-Za-z0-9+/]{43}/SHA256:…/'; }; quire verify N.zip | plain; quire verify N.zip --allowed-signers allowed | plain
            Verified N.zip: 2 files, … bytes.
            Signed with the ssh-ed25519 key SHA256:…, which was not checked against allowed signers; specify --allowed-signers.
            Verified N.zip: 2 files, … bytes.
            Signed by ada@example.org, with the ssh-ed25519 key SHA256:….
            $ quire verify N.zip | grep -c "$(ssh-keygen -l -f ada.pub | cut -d ' ' -f 2)"
            1
            $ quire verify N.zip --allowed-signers allowed --json | sed -E 's/SHA256:[A-Za-z0-9+/]{43}/…/; s/"bytes": [0-9]+/"bytes": …/'
            {
              "bytes": …,
              "files": 2,
              "path": "N.zip",
              "signer": {"fingerprint": "…", "keyType": "ssh-ed25519", "principals": "ada@example.org"}
            }
            $ mkdir u; cd u; unzip -q ../N.zip; cd N.quire/META-INF; ssh-keygen -Y verify -f ../../../allowed -I ada@example.org -n quire-archive -s manifest.json.sig < manifest.json | cut -c 1-46; ls; cd ../../..; quire verify u --allowed-signers allowed | tail -1 | cut -c 1-26
            Good "quire-archive" signature for ada@example
            manifest.json
            manifest.json.sig
            Signed by ada@example.org,
            $ quire export N.quire - --sign ada.pub | quire verify - --allowed-signers allowed --signer ada@example.org | tail -1 | cut -c 1-26
            Signed by ada@example.org,
            $ for format in quirez tar tar.gz tar.xz tar.zst; do quire export N.quire N.$format --sign ada > /dev/null; quire verify N.$format --allowed-signers allowed > /dev/null; echo $?; rm -rf X; quire extract N.$format X; done
            0
            Extracted N.quirez to X: 0 objects.
            0
            Extracted N.tar to X: 0 objects.
            0
            Extracted N.tar.gz to X: 0 objects.
            0
            Extracted N.tar.xz to X: 0 objects.
            0
            Extracted N.tar.zst to X: 0 objects.
            """)
    }

    @Test func otherSignaturesAreRefused() throws {
        try expect(
            """
            $ quire export N.quire bob.zip --sign bob; quire verify bob.zip --allowed-signers allowed 2>&1 | sed -E 's/SHA256:[A-Za-z0-9+/]{43}/SHA256:…/'; quire verify bob.zip --allowed-signers allowed 2> /dev/null
            Exported N.quire to bob.zip: 2 files, signed.
            quire: “bob.zip” is signed with the key SHA256:…, which “allowed” does not list.
            [4]
            $ quire export N.quire rsa.tar --sign rsa; quire verify rsa.tar
            Exported N.quire to rsa.tar: 2 files, signed.
            quire: “rsa.tar” is signed with a key of type ssh-rsa, but only Ed25519 signatures can be verified here. Unpack it, and run: ssh-keygen -Y verify -f ALLOWED_SIGNERS -I IDENTITY -n quire-archive -s META-INF/manifest.json.sig < META-INF/manifest.json
            [1]
            $ mkdir f; cd f; unzip -q ../bob.zip; rm N.quire/META-INF/manifest.json.sig; ssh-keygen -q -Y sign -n file -f ../ada N.quire/META-INF/manifest.json 2> /dev/null; quire verify . --allowed-signers ../allowed
            quire: The signature of “.” was created for another purpose: its namespace is “file”, not “quire-archive”.
            [4]
            $ cd f; echo >> N.quire/META-INF/manifest.json; rm N.quire/META-INF/manifest.json.sig; cp N.quire/META-INF/manifest.json m; ssh-keygen -q -Y sign -n quire-archive -f ../ada m 2> /dev/null; mv m.sig N.quire/META-INF/manifest.json.sig; rm m; quire verify . --allowed-signers ../allowed > /dev/null; echo $?; echo >> N.quire/META-INF/manifest.json; quire verify . --allowed-signers ../allowed
            0
            quire: “.” was changed after it was signed: its signature does not match its manifest.
            [4]
            """)
    }

    @Test func failuresOfSigningLeaveNothing() throws {
        try expect(
            """
            $ mkdir tmp; export TMPDIR=$PWD/tmp; quire export N.quire N.zip --sign locked; ls -A tmp N.zip
            quire: The archive was not written, because ssh-keygen could not sign it with “locked”: Load key "locked": incorrect passphrase supplied to decrypt private key
            ls: cannot access 'N.zip': No such file or directory
            tmp:
            [2]
            $ quire export N.quire N.zip --sign none; ls N.zip
            quire: “none” does not exist.
            ls: cannot access 'N.zip': No such file or directory
            [2]
            $ mkdir bin; ln -s "$(command -v quire)" bin; PATH=$PWD/bin quire export N.quire N.zip --sign ada; ls -A tmp N.zip
            quire: The archive was not written, because the signing program ssh-keygen is not installed; install OpenSSH.
            ls: cannot access 'N.zip': No such file or directory
            tmp:
            [2]
            $ quire export N.quire page.html --as html --sign ada
            quire: The options of archives, such as --format or --sign, cannot be used with --as. See 'quire export --help'.
            [2]
            """)
    }

    @Test func agentSignsWithAPublicKey() throws {
        try expect(
            """
            $ eval "$(ssh-agent -a $PWD/agent)" > /dev/null; ssh-add -q ada; rm ada; quire export N.quire N.zip --sign ada.pub; kill -KILL $SSH_AGENT_PID; quire verify N.zip --allowed-signers allowed | tail -1 | cut -c 1-26; quire export N.quire M.zip --sign ada.pub 2>&1 | cut -d ' ' -f 1-11
            Exported N.quire to N.zip: 2 files, signed.
            Signed by ada@example.org,
            quire: The archive was not written, because ssh-keygen could not sign
            """)
    }
}

private enum OpenSSH {
    static let isInstalled = (try? CommandShell().run("command -v ssh-keygen"))?.code == 0
}
