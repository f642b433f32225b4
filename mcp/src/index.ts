/** `@squash/mcp`: sandboxes as an MCP server. */
/** The client that the tools know the errors of: a second copy of the SDK, as a bundle has one, throws others. */
export { Squash } from '@squash/sdk';
export { serveHttp } from './http.ts';
export { type McpOptions, mcpLimits } from './options.ts';
export { serveStdio } from './stdio.ts';
export { ToolError } from './tool-error.ts';
