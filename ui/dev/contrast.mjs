// @ts-check
// Whether text stands out. The checks of the made-up hosts and those of the real ones share it.

/** Text whose contrast with what lies behind it is below 4.5. @param {import("playwright-core").Page} page @returns {Promise<string[]>} */
export function faintText(page) {
  return page.evaluate(() => {
    const numbers = (/** @type {string} */ text) => (text.match(/[\d.]+/g) ?? []).map(Number);
    const luminance = (/** @type {number[]} */ colour) => {
      const [r, g, b] = colour.slice(0, 3).map((part) => {
        const value = part / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const faint = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!element || !node.textContent?.trim() || element.closest("noscript") || element.getClientRects().length === 0) continue;
      let behind = null;
      for (let at = /** @type {Element | null} */ (element); at && !behind; at = at.parentElement) {
        const ground = numbers(getComputedStyle(at).backgroundColor);
        if (ground.length === 3 || ground[3] > 0) behind = ground;
      }
      const [high, low] = [luminance(numbers(getComputedStyle(element).color)), luminance(behind ?? [255, 255, 255])].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${element.className} ${node.textContent.trim().slice(0, 30)}`);
    }
    return faint;
  });
}
