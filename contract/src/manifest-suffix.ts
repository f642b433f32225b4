/** What the file of a module's manifest has behind the module's own name. By itself: whoever needs it alone loads no schemas. */
export const manifestSuffix = '.manifest.json';
