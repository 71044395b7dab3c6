import Foundation

/// Files created once with the `openssl` command, as other programs write them. The key belongs to nobody.
enum Fixtures {
    /// `openssl req -x509 -subj "/UID=com.example.App/CN=Apple Push Services: com.example.App/OU=TEAM123456"`
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIICIDCCAcWgAwIBAgIUMS26U8eQHwvMcsbsgN17028XUpcwCgYIKoZIzj0EAwIw
        ZTEfMB0GCgmSJomT8ixkAQEMD2NvbS5leGFtcGxlLkFwcDEtMCsGA1UEAwwkQXBw
        bGUgUHVzaCBTZXJ2aWNlczogY29tLmV4YW1wbGUuQXBwMRMwEQYDVQQLDApURUFN
        MTIzNDU2MB4XDTI2MTEyMTAzMzk1MFoXDTM2MTExODAzMzk1MFowZTEfMB0GCgmS
        JomT8ixkAQEMD2NvbS5leGFtcGxlLkFwcDEtMCsGA1UEAwwkQXBwbGUgUHVzaCBT
        ZXJ2aWNlczogY29tLmV4YW1wbGUuQXBwMRMwEQYDVQQLDApURUFNMTIzNDU2MFkw
        EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEwkE+IUMgW7dCzozbpWaPnhIcr5UrSa5w
        boZOffy02nk/egRDdXNg3tN1IlZaOjEgQRhCI0Ctgun7pCb1nzJkJqNTMFEwHQYD
        VR0OBBYEFMrEEWpKyOPvWLIn4YEtfx6ZRlCLMB8GA1UdIwQYMBaAFMrEEWpKyOPv
        WLIn4YEtfx6ZRlCLMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIh
        AON8XOaN4LRHFuLDWYIVUVnrwVZrPl0YUYNjafxOZLz6AiEAyiuCsIgDEVm+V1x2
        REcNHinxLHQTPU48+HzQnMMjOyo=
        -----END CERTIFICATE-----
        """

    /// `openssl pkcs8 -topk8 -nocrypt`: the form of a `.p8` file.
    static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+lOaz3L3C4c5Qm7W
        h8INrzkZEjIiEc8yJ+WNrgWtR/mhRANCAATCQT4hQyBbt0LOjNulZo+eEhyvlStJ
        rnBuhk59/LTaeT96BEN1c2De03UiVlo6MSBBGEIjQK2C6fukJvWfMmQm
        -----END PRIVATE KEY-----
        """

    /// `openssl pkcs8 -topk8 -passout pass:geheim`
    static let encryptedKey = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiseT5vsJKJ1AICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEOozsjCnyj2utqXfz7+L7EQEgZDa
        PXNfSRHBvutM86cQ/ymjMlQmZf1jdPhFzB5nHxNExcS5lFsY4j6L4EpPFNyceBT8
        plOuNWp9K6epSS1+A4IxdAfNG3VxRJVr6kH3rlYC9ANm41QbnIXINXhXupKA0h9i
        V59FrGuvMKDM1IPkNbXU9ihDXXr1+0I35Bnzn9mo/JnFY/KdR0pcY93WnetSs8k=
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// `openssl pkcs12 -export -passout pass:geheim`
    static let pkcs12 = bytes(
        """
        MIIErAIBAzCCBGIGCSqGSIb3DQEHAaCCBFMEggRPMIIESzCCAwIGCSqGSIb3DQEHBqCCAvMwggLvAgEAMIIC6AYJKoZIhvcNAQcBMFcG
        CSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAj1LhvL8l4akgICCAAwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEEAP9BaCRJtF
        LNBc27tx1JaAggKAHpELHEpLAIW1DKifHljtSHRMjJGqUMuaVyqA5FYcBP8SfIVMtzKlQAW2AQwANAZ4og/TMzx/7J0l132Hs5lDA2hW
        HazFJix/aMbsq3rSnfwWqVw1uLmrCzfkjDNgVjBqBGLML1kOkZ+3zuVU7xHQvm7wMGcVlWL1EhnhU0e8aKX8hSg/9a9Wr5tOvUa99DF2
        LlJW+7+0YILj9U43/T7ouEVifAQ0CQNIwDMdprJT6JWHmUgDmnZrwJxUf/zlX+IpXotmQaYOB77oaUSfgNsv8S6JNgoOzEuHIo3Frh/6
        uxOGmVmoHf0XsdCJ+PdMrmhKvJ/qk0MHyt2NJpnwoB1tzE4Xr93PK3jmMgxTSJD7nQUUFp1/I0+3uPYSB8CfZMw9/BxAV9q5OZ0mQiX2
        wY5LGEI00GHRP8ooK4+rzLvQp1xHU/o5hkAzxxL5DpSvJKKOMpMrXpPW2jUtSeKWy6c8+VvqnnsuXqWfBCkCocUwM7/q9PziaqOtNOI+
        5By9LMXus9+J5x+FAkREEbnuLBWyEOytwE/WNgKFQ+e/hx+XTX5wq3uG60dDFQwTevDzAFRA17EGS/PinLCNSn9pE8Gsal3n6lt1GFus
        1MdchfxnyEFhAxQYrhCxB3KNnA/yxAIK+48ErIYk3ImmkOmqjqfo/xjqp9C8eZN3cEGEyydJ7pnDytYqmAJPSbzyc23F25Wma0qYWlIM
        kA+bwVGmD31VLny9LcdrgTqs65Vp7jP6/Ze0QYf6vmjp1nxxkfOwbzWvrdkYSGENs6kpdkLbKvV8T/ZGlRY/JKX19hPnKuw3XxsUkySB
        30VkqN2OM2r6sMseAF2SKxfTNqx/y7ZCMXKoHDCCAUEGCSqGSIb3DQEHAaCCATIEggEuMIIBKjCCASYGCyqGSIb3DQEMCgECoIHvMIHs
        MFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh2P7dnrUtdYgICCAAwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHhhozQL
        YI1fUcRLiXMJSEEEgZATXU6wAw2hTpgp4RI/r4oCUS0URJnomgoRl30k3oVlvF+wxZEnHfOrLPjZVr7UItBR/t65hMcAkoBcFj51+PsP
        hXN7kNn02GQRLTnBzOldWN1DRM3DFQFb+JZfYswzwO9Xwk3GOxBKjdO7ypgfckqNU//ZY2mLtQ7hXN8MMo2QHhunFKNNeu9X/7PWF/hb
        owAxJTAjBgkqhkiG9w0BCRUxFgQUSZaRZf+wDSORq5DTYlWmF/XS4/4wQTAxMA0GCWCGSAFlAwQCAQUABCC1hLhAqwFQbY5um2KEEVbc
        HQvFpeN+qeuDa5eygMvMqgQIR1UqdZ404/UCAggA
        """)

    /// `openssl pkcs12 -export -passout pass:`
    static let pkcs12WithoutPassword = bytes(
        """
        MIIErAIBAzCCBGIGCSqGSIb3DQEHAaCCBFMEggRPMIIESzCCAwIGCSqGSIb3DQEHBqCCAvMwggLvAgEAMIIC6AYJKoZIhvcNAQcBMFcG
        CSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgA1/o04RGnQAICCAAwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEFkbPKr1fS1g
        mFPiaUiZXeyAggKADWtYHDrK2Ee0eKt8vL3AjLHWiY++wdBX0l6mz6000WgrNTjX4H0d85XzzpCMruBRrklcy8rAjvfKpqUsL+m3kkOI
        UJJI4x5gSbAJF30nuHu5uk7hmtI6CPfQsg70Y7eZSYErRgMdMmo9IUhGQYfsYUPxv4QY/YhJctJ4XkXA7dUq8bWrslcKxQGsNRg28KtW
        syMooHikEx6toxlXP9lff4CaHFCE9LykC7M2U25g6WChyvR30PoyP9aXuQ7woBgXAd0We8vIQoyR5kuPWpCDRs1TnWBaSe1OCOrFjGKg
        onxvtRVdmTDMBJgR16nh92/1MkMI3PrTLSkysswGohBQ86XpJv6K4ttki7uBU0x6Hq56gd7xbCSUz6ebSrjfbUo5rB3qmIlWkjMFDUus
        +TsRtPEommL5iax3pS6TxVVhRCsbwJ+VzFimpA3wHwxh+jFG3FwCkjfdIrY7eVXo52ybAIvmEzVPGSaPnIvxQ0NNav0DKVCVmzWU7pnt
        ZPxlhNTMsHbIBzffmakD8264MgzisUb6hSi7s0gzbXk/3pLqJpHle8tIdQAahcF24yhqlphxs0K52Znm+54aGe72aj84mVFNuePGxe+Z
        ov4lpz4azfR2osL9HkH8mR4jk1aifvWO8n1epVG34h9AR5RELAzQpJBF5d+aTgtzZ66ZQvA7QqIcw0qUuBlBZ/8x3HjTyK5MkvR9g63G
        /Iu3aeqjHxghQ8Ly/oY8EbN8pE8g4n+NV2QaPL8zQBm6tN6ERkIX4FpkGxa+iuP5tLDkuVSl9RsFW9ekcEMmq5vLHiNa+WZgvaByOaP6
        5CW5niGayZD5VQ0DwUYnz1ndygk7ASHWNYCbtDCCAUEGCSqGSIb3DQEHAaCCATIEggEuMIIBKjCCASYGCyqGSIb3DQEMCgECoIHvMIHs
        MFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhNi7XDMBB7CgICCAAwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEIc2Lw4W
        7SIlnCe4OthRyRcEgZD/r4/SVU9IE8sYtBD3le9sYD99VplBCSoAmJt3vRybyJML8hMNV5DlZ+KZ43faog05my9Z8BXokeRChN42jT7t
        X1nZiDJVYdBiQHeG0AuxgLnPMD9hf48UKJBRylnfOPqFXx56lUTQKJBO0n6GwUyT4p/BFYFWlZEUSzon9YuwM+XyT3TjODUMD4+BZC4t
        pVQxJTAjBgkqhkiG9w0BCRUxFgQUSZaRZf+wDSORq5DTYlWmF/XS4/4wQTAxMA0GCWCGSAFlAwQCAQUABCDRaFL5fXVxx6y2t8OnD6CR
        6CsxzqNVnGcCBcAV5Scp+QQIA/7pOLx5xmoCAggA
        """)

    /// `openssl pkcs12 -export -legacy -passout pass:geheim`, with RC2 of 40 bits, as a macOS keychain exports.
    static let pkcs12WithOldCipher = bytes(
        """
        MIIEIgIBAzCCA+gGCSqGSIb3DQEHAaCCA9kEggPVMIID0TCCAscGCSqGSIb3DQEHBqCCArgwggK0AgEAMIICrQYJKoZIhvcNAQcBMBwG
        CiqGSIb3DQEMAQYwDgQI5UJKwk6MDYkCAggAgIICgEdrZSbHEXkzMNkUxdTm7s9TRYaw3Bd/lOY6B1n8Wcszhq2pvAjK7Nk7LWdkjEWo
        9qggU7QUH/uQr0luxRM/paT2lmXzJz2Z7D7pAYo4o9j6jKUbRhEsEcFAZoDLtxqhnfHVgJms3I7GroqJXU1YhTlV2At9hbbuvwdHm5oR
        KcpMfv2M3Ubzvq5RWtjq3HfCGNXig2piet77zgKMi/3g1GL9khmkKYnvIe36lAMWvDJ6XwAKE0ene4/h3vU8z08ekmxZukTViupCrtnj
        Zri2m6KlgUxHCIKvU+KsdWQuXiFaIb+i0b5NT4mNx4lqkWFc+7oeKMf83VV8gZQDB2J8GRbrzApKUpwjwTmp82cEZUsAFzjvAez/KRpw
        EsAQsWE7pzp5YGQTVwDDasCaMQZDSCl9BmMoZmuE6yYRFzXQ0YkpMxv5vWXLFAGUHg71zlY6YhGQ7IFhqWb2K24nB5FTuxGghGnvhT+w
        0eK9x7K25/xeb+OcugX+Oy1fgfeiaQ7mck01XnLKrz24JR3BYU/wQGpjwPZ8yt0ES6La6a+o43sLAo2ZWHv0BaG0avv0RZdYigswdE3w
        awf2CQguFK2nVl1q3H6mIUOAurNz7sDlpZmTyQj4P9UJjEAw6JXTBpw34FpweikKQKTMrOc0+fEtW6OXcELtz2Z/aPZI08La0upzDsjW
        sfXe8R4ITOguQlmQe16MmeiEZWQdmiLdfjLjmWTy3160BJwgN+54wrY9ElWhSWYS6a2le2ctabExowSa1YjqLsD43gYqEZRkveYYFWhF
        OpcCu8wo885w/XOHxR9DqXLm/NYui8r6b2g3nh7f1S1lboOIrgy2AN63zThcWzMwggECBgkqhkiG9w0BBwGggfQEgfEwge4wgesGCyqG
        SIb3DQEMCgECoIG0MIGxMBwGCiqGSIb3DQEMAQMwDgQITwzfNYOtSCICAggABIGQ4NcEg9brXJSE77sKeSlppw1pUjsuNPuamfOhxopH
        +g6VssWlZSNTh/Alsl6+SZeVKz5J+RukTXAA/2F9WVErXM1Wa1rEgVK4z4XKrX+5ztrHP0PRNmrWmbIc/MXWMSTliOGJloY9c8A8VM/X
        Pr10fEkhUNmYfKsAFXgaeMk28GoOzCjTZLPfzVJfBmUGs9YFMSUwIwYJKoZIhvcNAQkVMRYEFEmWkWX/sA0jkauQ02JVphf10uP+MDEw
        ITAJBgUrDgMCGgUABBTznPF1xp+rR8HU1zd9oW1RSbpMlwQIJHjyb/jgnJMCAggA
        """)

    private static func bytes(_ base64: String) -> [UInt8] {
        Array(Data(base64Encoded: base64, options: .ignoreUnknownCharacters)!)
    }
}
