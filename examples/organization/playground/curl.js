/** Returns a request as a shell command. */
export function curl({ path, headers, body }, origin) {
  const options = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  return ["curl -i", ...options, `-d ${quoted(body)}`, origin + path].join(" \\\n  ");
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
