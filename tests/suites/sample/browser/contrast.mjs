/** Returns the texts of a page with less contrast to their background than WCAG AA requires. */
export function blend(page) {
  return page.evaluate(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return canvas.getImageData(0, 0, 1, 1).data;
    };
    const luminance = ([red, green, blue]) => {
      const linear = [red, green, blue].map((value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
      return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const groundOf = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = rgba(getComputedStyle(at).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return rgba("Canvas");
    };
    const isSeen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest(".unseen, .skip, noscript");
    const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());

    return [...document.body.querySelectorAll("*")]
      .filter((element) => hasText(element) && isSeen(element))
      .map((element) => {
        const style = getComputedStyle(element);
        const ink = luminance(rgba(element.closest("svg") ? style.fill : style.color));
        const ground = luminance(groundOf(element));
        const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        return { text: element.textContent.trim().slice(0, 40), contrast };
      })
      .filter(({ contrast }) => contrast < 4.5);
  });
}
