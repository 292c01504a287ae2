// Preloaded into a gateway (node --require): takes every secure option out of its TLS contexts again, so that a test can
// see what the gateway does when a client does renegotiate.
'use strict';
const tls = require('node:tls');

const { createSecureContext } = tls;
tls.createSecureContext = (options) => createSecureContext({ ...options, secureOptions: undefined });
